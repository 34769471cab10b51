/// @file
/// Provides an environment of this program to a server.
///
/// This header needs no Boost.
#ifndef GYM_HTTP_CLIENT_SERVE_HPP
#define GYM_HTTP_CLIENT_SERVE_HPP

#include <atomic>

#include "gym_http_client/serving/conversation.hpp"
#include "gym_http_client/serving/heartbeats.hpp"
#include "gym_http_client/serving/message_connection.hpp"

namespace gym_http {

/// Keeps one environment connected to a server, and answers for it.
///
/// Agents create it as `external/NAME`. A game calls `poll()` once a frame, another
/// program `run()`. A lost connection is opened again, and resumes.
/// Handlers are called in `poll()` and `run()`, one at a time. For one thread,
/// except `stop()`.
class Provider {
public:
    /// Describes the environment; nothing is opened yet.
    /// @throws UsageError A handler is missing, or the token has a line break in it.
    Provider(Target target, ProvidedEnv provided)
        : target_(std::move(target)),
          provided_(std::move(provided)),
          conversation_(provided_, target_.url(), [multi = multi_] { multi->wake(); }) {
        if (target_.server.token.find_first_of("\r\n") != std::string::npos)
            throw UsageError("the token has a line break in it");
    }
    Provider(const Provider&) = delete;
    Provider& operator=(const Provider&) = delete;
    /// Ends the connection; no handler is called.
    ~Provider() {
        if (connection_) connection_->close();
    }

    /// Does all that is possible at once: connects, reads, calls handlers, and writes. It
    /// never waits, and does not throw for network errors.
    /// @returns False after `stop()`, a refusal, or the end of `stdio:`.
    bool poll() {
        // A handler may call `poll` itself.
        if (over_ || polling_) return !over_;
        const Within within(polling_);
        if (stopped_) {
            leave();
            return false;
        }
        try {
            converse();
        } catch (const detail::ConnectionLost& lost) {
            lose(lost.what());
        } catch (const Error& error) {
            lose("a message of the server cannot be decoded: " + error.message());
        }
        return !over_;
    }

    /// Serves until `stop()`, or the end of `stdio:`.
    /// @throws ApiError The server refuses this environment, with the reason.
    void run() {
        while (poll()) wait();
        if (refusal()) throw ApiError(*refusal());
    }

    /// Makes `run()` return, and `poll()` return false. From any thread, and from
    /// handlers.
    void stop() {
        stopped_ = true;
        multi_->wake();
    }

    /// Whether the server has welcomed it on the present connection.
    bool connected() const noexcept { return conversation_.is_welcome(); }
    /// Whether an agent has it.
    bool taken() const noexcept { return conversation_.taken(); }
    /// Why the server refuses the environment; nothing if it does not.
    const std::optional<ApiError>& refusal() const noexcept { return conversation_.refusal(); }

private:
    static constexpr double welcome_s = 10;
    static constexpr double never_s = 1e8;

    struct Within {
        explicit Within(bool& flag) : flag_(flag) { flag_ = true; }
        Within(const Within&) = delete;
        Within& operator=(const Within&) = delete;
        ~Within() { flag_ = false; }
        bool& flag_;
    };

    /// How long to wait for the server, whose end is otherwise that of standard input.
    double limit(double seconds) const { return target_.stdio ? never_s : seconds; }

    void converse() {
        conversation_.flush();
        if (!connection_) {
            if (due_.left() > 0) return;
            welcome_.reset();
            connection_ = std::make_unique<detail::MessageConnection>(multi_, target_);
            // A WebSocket has shown it in its handshake.
            conversation_.begin(target_.plain_tcp ? target_.server.token : "");
        }
        send_message();
        connection_->poll(arrived_);
        if (connection_->is_open() && !welcome_) welcome_.emplace(limit(welcome_s));
        while (!arrived_.empty()) {
            const detail::Message message = std::move(arrived_.front());
            arrived_.pop_front();
            handle(message);
            if (over_) return;
        }
        if (conversation_.is_welcome()) {
            if (beats_.is_time()) conversation_.ping();
            send_message();
        } else if (welcome_ && welcome_->left() <= 0) {
            throw detail::ConnectionLost("the server does not answer to hello");
        }
    }

    void handle(const detail::Message& message) {
        beats_.arrived();
        if (message.opcode == detail::op_ping)
            return connection_->send(detail::op_pong, message.text());
        if (message.opcode == detail::op_pong) return;
        if (message.opcode == detail::op_close) {
            const std::string reason(message.text().substr(std::min<std::size_t>(
                2, message.payload->size())));
            throw detail::ConnectionLost(reason.empty() ? "the server ended the connection" : reason);
        }
        const bool known = conversation_.is_welcome();
        conversation_.take(message);
        over_ = conversation_.refusal().has_value();
        if (over_) return end_line();
        if (!known && conversation_.is_welcome()) {
            beats_.start(limit(conversation_.heartbeat_s()));
            pauses_ = {};
            last_failure_.clear();
        }
        send_message();
    }

    void send_message() {
        while (const auto sending = conversation_.next())
            connection_->send(sending->opcode, sending->payload);
    }

    void lose(const std::string& words) {
        if (target_.stdio) {
            // There is no other connection.
            conversation_.log(words);
            return leave();
        }
        if (conversation_.is_welcome())
            conversation_.log(words + "; connecting again");
        else if (words != last_failure_)
            conversation_.log(words + "; trying again");
        last_failure_ = words;
        end_line();
        // Not all at the same moment, where many lost the same server.
        due_ = detail::Deadline(pauses_.next(0));
    }

    void end_line() {
        if (connection_) connection_->close();
        connection_.reset();
        arrived_.clear();
        conversation_.lose();
    }

    void leave() {
        end_line();
        over_ = true;
        conversation_.end();
        conversation_.log("stopped");
    }

    /// Waits for I/O or answers.
    void wait() const {
        if (connection_ && connection_->has_more()) return;
        if (!connection_) return multi_->wait(CURL_SOCKET_BAD, false, due_.left());
        // Names are looked up without a socket to wait for.
        const double longest = connected() ? beats_.left() : 0.1;
        multi_->wait(connection_->socket(), connection_->is_writing(), longest);
    }

    std::shared_ptr<detail::Multi> multi_ = std::make_shared<detail::Multi>();
    Target target_;
    ProvidedEnv provided_;
    detail::Conversation conversation_;
    std::atomic<bool> stopped_{false};
    bool polling_ = false;
    bool over_ = false;

    std::unique_ptr<detail::MessageConnection> connection_{};
    std::deque<detail::Message> arrived_{};
    std::optional<detail::Deadline> welcome_{};  ///< When that has to be there.
    detail::Heartbeats beats_{};

    detail::Deadline due_{0};  ///< When to connect again.
    detail::Pauses pauses_{};
    std::string last_failure_{};  ///< As it was logged.
};

}  // namespace gym_http

#endif
