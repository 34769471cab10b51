/// @file
/// Heartbeats: whether the other side is still there.
#ifndef GYM_HTTP_CLIENT_SERVING_HEARTBEATS_HPP
#define GYM_HTTP_CLIENT_SERVING_HEARTBEATS_HPP

#include "gym_http_client/server.hpp"
#include "gym_http_client/serving/messages.hpp"

namespace gym_http::detail {

/// Counts beats without a message. Not seconds, since a program that was suspended
/// reads messages late.
class Heartbeats {
public:
    /// Starts again.
    void start(double seconds) {
        seconds_ = seconds;
        next_ = Deadline(seconds);
        quiet_ = 0;
    }

    /// Records a received message.
    void arrived() { quiet_ = 0; }

    /// Seconds until the next one.
    double left() const { return next_.left(); }

    /// Returns whether to send a ping.
    /// @throws ConnectionLost The last ping had no answer.
    bool is_time() {
        if (left() > 0) return false;
        next_ = Deadline(seconds_);
        if (++quiet_ > 2) throw ConnectionLost("the server sends nothing");
        return quiet_ == 1;
    }

private:
    double seconds_ = 0;
    Deadline next_{0};
    int quiet_ = 0;
};

}  // namespace gym_http::detail

#endif
