/// @file
/// The requests to one environment, over all its connections.
#ifndef GYM_HTTP_CLIENT_SERVING_REQUESTS_HPP
#define GYM_HTTP_CLIENT_SERVING_REQUESTS_HPP

#include <iostream>

#include "gym_http_client/serving/answering.hpp"

namespace gym_http::detail {

/// Hands requests to handlers, one after the other, and keeps the last answer.
class Requests {
public:
    Requests(const ProvidedEnv& provided, std::function<void()> wake)
        : provided_(provided), answering_(provided, std::move(wake)) {}

    Json hello(const std::string& resume) const { return answering_.hello(resume); }
    /// Whether an agent uses the environment, as the author was notified.
    bool taken() const { return notified_taken_; }

    /// Handles a request; a repeated one gets the stored answer.
    void take(const ServerMessage& received) {
        received_here_ = true;
        if (received.id == last_) {
            due_ = outcome_.has_value();
            return;
        }
        last_ = received.id;
        outcome_.reset();
        due_ = false;
        waiting_.push_back(received);
    }

    /// Collects answers of handlers, and calls them with the waiting request.
    void advance() {
        while (true) {
            if (answering_.is_busy()) {
                auto outcome = answering_.look();
                if (!outcome) return;
                finish(std::move(*outcome));
            }
            if (waiting_.empty()) return;
            const ServerMessage next = std::move(waiting_.front());
            waiting_.pop_front();
            running_ = next.id;
            abandoned_ = false;
            answering_.send_request(next);
        }
    }

    /// The answer to the last request, if it is to be sent; only once.
    const Outcome* due() {
        if (!due_) return nullptr;
        due_ = false;
        return &*outcome_;
    }

    /// The connection is lost: on the next one, the server repeats the last request.
    void lose() { due_ = received_here_ = false; }

    /// The last request.
    std::uint32_t last() const { return last_; }

    /// The server has lost the earlier conversation.
    void forget() {
        last_ = 0;
        outcome_.reset();
        due_ = false;
        waiting_.clear();
        abandoned_ = answering_.is_busy();
        answering_.taken = false;
        notify_author();
    }

    /// Logs an event for the author.
    void log(const std::string& words) const {
        const std::string line = "external/" + provided_.name + ": " + words;
        if (provided_.log)
            provided_.log(line);
        else
            std::clog << line << std::endl;
    }

private:
    void finish(Outcome outcome) {
        if (outcome.error) log(outcome.error->message());
        // The request belongs to an earlier conversation.
        if (abandoned_) answering_.taken = false;
        notify_author();
        // The server has given up all requests but the last.
        if (abandoned_ || running_ != last_) return;
        outcome_ = std::move(outcome);
        due_ = received_here_;
    }

    void notify_author() {
        if (answering_.taken == notified_taken_) return;
        notified_taken_ = answering_.taken;
        log(notified_taken_ ? "an agent arrived" : "the agent left");
        const auto& handler = notified_taken_ ? provided_.on_agent : provided_.on_agent_gone;
        try {
            if (handler) handler();
        } catch (const std::exception& error) {
            log(std::string("a handler failed: ") + error.what());
        }
    }

    const ProvidedEnv& provided_;
    Answering answering_;
    std::deque<ServerMessage> waiting_{};
    std::uint32_t last_ = 0;      ///< The last request,
    std::optional<Outcome> outcome_{};  ///< its answer, stored in case it is lost,
    bool due_ = false;            ///< and whether to send it.
    bool received_here_ = false;          ///< Whether it was received on this connection.
    std::uint32_t running_ = 0;   ///< The request that a handler executes.
    bool abandoned_ = false;      ///< Whether it belongs to an earlier conversation.
    bool notified_taken_ = false;
};

}  // namespace gym_http::detail

#endif
