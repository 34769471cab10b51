/// @file
/// Lending: an environment of this program connects to a server, where agents find it.
///
/// This header needs no Boost.
#ifndef GYM_HTTP_CLIENT_SERVE_HPP
#define GYM_HTTP_CLIENT_SERVE_HPP

#include <atomic>

#include "gym_http_client/serving/heartbeats.hpp"
#include "gym_http_client/serving/line.hpp"
#include "gym_http_client/serving/requests.hpp"

namespace gym_http {

/// Keeps one environment connected to a server, and answers for it.
///
/// Agents find it there as `external/NAME`. A game calls `poll()` once a frame, another
/// program `run()`. A connection that is lost is opened again, and goes on where it
/// stopped. Handlers are called in `poll()` and `run()`, one at a time. For one thread,
/// but for `stop()`.
class Lender {
public:
    /// Describes what is lent; nothing is opened yet.
    /// @throws UsageError A handler is missing, or the token has a line break in it.
    Lender(Server server, Lent lent)
        : server_(std::move(server)),
          lent_(std::move(lent)),
          requests_(lent_, [multi = multi_] { multi->wake(); }) {
        if (server_.token.find_first_of("\r\n") != std::string::npos)
            throw UsageError("the token has a line break in it");
    }
    Lender(const Lender&) = delete;
    Lender& operator=(const Lender&) = delete;
    /// Ends the connection; nobody is called back.
    ~Lender() {
        if (line_) line_->close();
    }

    /// Does what can be done at once: connects, reads, calls handlers, and writes. It
    /// never waits, and trouble with the network throws nothing.
    /// @returns Whether it goes on: neither was it stopped, nor is it refused.
    bool poll() {
        // A handler may call what calls this.
        if (over_ || polling_) return !over_;
        const Within within(polling_);
        if (stopped_) {
            leave();
            return false;
        }
        try {
            converse();
        } catch (const detail::LineLost& lost) {
            lose(lost.what());
        } catch (const Error& error) {
            lose("what the server sent cannot be read: " + error.message());
        }
        return !over_;
    }

    /// Serves until `stop()`.
    /// @throws ApiError The server does not take this environment, and says why.
    void run() {
        while (poll()) wait();
        if (refusal_) throw ApiError(*refusal_);
    }

    /// Has `run()` return, and `poll()` say that it is over. From any thread, and from
    /// handlers.
    void stop() {
        stopped_ = true;
        multi_->wake();
    }

    /// Whether the server has welcomed it, on a connection that is there still.
    bool connected() const noexcept { return conversation_ != nullptr; }
    /// Whether an agent has it.
    bool taken() const noexcept { return requests_.taken(); }
    /// Why the server does not take it; nothing if it does.
    const std::optional<ApiError>& refusal() const noexcept { return refusal_; }

private:
    static constexpr double welcome_s = 10;

    struct Within {
        explicit Within(bool& flag) : flag_(flag) { flag_ = true; }
        Within(const Within&) = delete;
        Within& operator=(const Within&) = delete;
        ~Within() { flag_ = false; }
        bool& flag_;
    };

    void converse() {
        settle();
        if (!line_) {
            if (due_.left() > 0) return;
            welcome_.reset();
            line_ = std::make_unique<detail::MessageLine>(multi_, server_);
            line_->send(detail::op_text, write_json(requests_.hello(resume_)));
        }
        line_->poll(arrived_);
        if (line_->is_open() && !welcome_) welcome_.emplace(welcome_s);
        while (!arrived_.empty()) {
            const detail::Message message = std::move(arrived_.front());
            arrived_.pop_front();
            take(message);
            if (over_) return;
        }
        if (conversation_) {
            if (beats_.is_time()) say(conversation_->ping());
        } else if (welcome_ && welcome_->left() <= 0) {
            throw detail::LineLost("the server does not answer to hello");
        }
    }

    void take(const detail::Message& message) {
        beats_.heard();
        if (message.opcode == detail::op_ping)
            return line_->send(detail::op_pong, message.text());
        if (message.opcode == detail::op_pong) return;
        if (message.opcode == detail::op_close) {
            const std::string reason(message.text().substr(std::min<std::size_t>(
                2, message.payload->size())));
            throw detail::LineLost(reason.empty() ? "the server ended the connection" : reason);
        }
        if (!conversation_) return greet(read_json(message.text()));
        const detail::Said said = conversation_->read(message);
        if (said.type == "ping") return say(conversation_->pong());
        if (said.type == "pong") return;
        if (said.type == "fault") {
            const std::string field = said.text("field");
            return requests_.log("the server found a fault" +
                                 (field.empty() ? "" : " in " + field) + ": " +
                                 said.text("message"));
        }
        requests_.take(said);
        settle();
    }

    void greet(const Value& reply) {
        const std::string type = reply["type"].to<std::string>();
        if (type == "refused") return refuse(reply);
        if (type != "welcome") throw detail::LineLost("the answer to the hello is none");
        const bool resumed = reply["resumed"].to<bool>();
        const std::string connection = reply["connection"].to<std::string>();
        beats_.start(reply["heartbeat_s"].to<double>());
        resume_ = reply["resume"].to<std::string>();
        if (!resumed) requests_.forget();
        if (lent_.dialect == Dialect::binary)
            conversation_ = std::make_unique<detail::BinaryConversation>();
        else
            conversation_ = std::make_unique<detail::JsonConversation>();
        pauses_ = {};
        said_.clear();
        requests_.log((resumed ? "goes on, connection " : "is there, connection ") + connection);
    }

    void refuse(const Value& reply) {
        const std::string code = reply["code"].to<std::string>();
        const std::string words = code + ": " + reply["message"].to<std::string>();
        // This one may pass by itself.
        if (code == "too-many-external") throw detail::LineLost(words);
        refusal_.emplace(words, Place{server_.url, 0, code}, to_json(reply));
        requests_.log(words);
        end_line();
        over_ = true;
    }

    /// Goes on with handlers, and sends what they have answered.
    void settle() {
        requests_.settle();
        if (!conversation_) return;
        const detail::Told* told = requests_.due();
        if (told != nullptr) say(written(*told));
    }

    std::string written(const detail::Told& told) {
        const std::uint32_t id = requests_.last();
        if (told.error) return conversation_->failure(id, *told.error);
        try {
            return conversation_->answer(id, told.result);
        } catch (const UsageError& error) {
            const EnvError failure("what the environment gave cannot be said: " + error.message());
            requests_.log(failure.message());
            return conversation_->failure(id, failure);
        }
    }

    void say(const std::string& words) { line_->send(conversation_->opcode(), words); }

    void lose(const std::string& words) {
        if (conversation_)
            requests_.log(words + "; connecting anew");
        else if (words != said_)
            requests_.log(words + "; trying again");
        said_ = words;
        end_line();
        // Not all at the same moment, where many lost the same server.
        due_ = detail::Deadline(pauses_.next(0));
    }

    void end_line() {
        if (line_) line_->close();
        line_.reset();
        conversation_.reset();
        arrived_.clear();
        requests_.due();
    }

    void leave() {
        end_line();
        over_ = true;
        requests_.forget();
        requests_.log("is lent no more");
    }

    /// Waits until there is something to do.
    void wait() const {
        if (line_ && line_->has_more()) return;
        if (!line_) return multi_->wait(CURL_SOCKET_BAD, false, due_.left());
        // Names are looked up without a socket to wait for.
        const double limit = conversation_ ? beats_.left() : 0.1;
        multi_->wait(line_->socket(), line_->is_writing(), limit);
    }

    std::shared_ptr<detail::Multi> multi_ = std::make_shared<detail::Multi>();
    Server server_;
    Lent lent_;
    detail::Requests requests_;
    std::atomic<bool> stopped_{false};
    bool polling_ = false;
    bool over_ = false;
    std::optional<ApiError> refusal_{};

    std::unique_ptr<detail::MessageLine> line_{};
    std::deque<detail::Message> arrived_{};
    std::optional<detail::Deadline> welcome_{};             ///< When that has to be there.
    std::unique_ptr<detail::Conversation> conversation_{};  ///< Once it is welcome.
    std::string resume_{};  ///< In memory only, as is what it goes on with.
    detail::Heartbeats beats_{};

    detail::Deadline due_{0};  ///< When to connect again.
    detail::Pauses pauses_{};
    std::string said_{};  ///< What the last failure was.
};

}  // namespace gym_http

#endif
