/// @file
/// The conversation of an environment with a server, without a network and without time.
#ifndef GYM_HTTP_CLIENT_SERVING_CONVERSATION_HPP
#define GYM_HTTP_CLIENT_SERVING_CONVERSATION_HPP

#include "gym_http_client/serving/requests.hpp"

namespace gym_http::detail {

/// A message for the server.
struct Saying {
    Opcode opcode{};
    std::string payload{};
};

/// The messages of one environment, over all its connections. The caller passes
/// received messages in, and sends those of `next()`.
class Conversation {
public:
    /// @param url The server's address, for errors.
    /// @param wake Called, by whichever thread, when a handler has answered.
    /// @throws UsageError A handler is missing.
    Conversation(const ProvidedEnv& provided, std::string url, std::function<void()> wake)
        : provided_(provided), url_(std::move(url)), requests_(provided, std::move(wake)) {}

    /// Begins on a new connection.
    /// @param token The server's, where the hello has to show it.
    void begin(const std::string& token) {
        lose();
        Json hello = requests_.hello(resume_);
        if (!token.empty()) hello["token"] = token;
        sayings_.push_back({op_text, write_json(hello)});
    }

    /// Handles a message of the server.
    /// @throws ConnectionLost This connection cannot be used.
    /// @throws Error The message is malformed.
    void take(const Message& message) {
        if (!speech_) return process_reply(read_json(message.text()));
        const ServerMessage received = speech_->read(message);
        if (received.type == "ping") return send_message(speech_->pong());
        if (received.type == "pong") return;
        if (received.type == "fault") {
            const std::string field = received.text("field");
            return log("the server found a fault" + (field.empty() ? "" : " in " + field) + ": " +
                       received.text("message"));
        }
        requests_.take(received);
        flush();
    }

    /// Continues handlers, and queues their answers.
    void flush() {
        requests_.advance();
        if (!speech_) return;
        const Outcome* outcome = requests_.due();
        if (outcome != nullptr) send_message(written(*outcome));
    }

    /// Sends a ping.
    void ping() { send_message(speech_->ping()); }

    /// The next message to send, once.
    std::optional<Saying> next() {
        if (sayings_.empty()) return {};
        Saying sending = std::move(sayings_.front());
        sayings_.pop_front();
        return sending;
    }

    /// The connection is lost, with all unsent messages.
    void lose() {
        speech_.reset();
        sayings_.clear();
        requests_.lose();
    }

    /// The environment is no longer provided.
    void end() {
        lose();
        requests_.forget();
    }

    /// Whether the server has welcomed it, on this connection.
    bool is_welcome() const { return speech_ != nullptr; }
    /// The heartbeat interval of the last welcome.
    double heartbeat_s() const { return heartbeat_s_; }
    /// Why the server refuses the environment; nothing if it does not.
    const std::optional<ApiError>& refusal() const { return refusal_; }
    /// Whether an agent has it.
    bool taken() const { return requests_.taken(); }
    /// Logs an event for the author.
    void log(const std::string& words) const { requests_.log(words); }

private:
    void process_reply(const Value& reply) {
        const std::string type = reply["type"].to<std::string>();
        if (type == "refused") return refuse(reply);
        if (type != "welcome") throw ConnectionLost("the answer to the hello is malformed");
        const bool resumed = reply["resumed"].to<bool>();
        const std::string connection = reply["connection"].to<std::string>();
        heartbeat_s_ = reply["heartbeat_s"].to<double>();
        // In memory only, as the game's state is.
        resume_ = reply["resume"].to<std::string>();
        if (!resumed) requests_.forget();
        if (provided_.dialect == Dialect::binary)
            speech_ = std::make_unique<BinarySpeech>();
        else
            speech_ = std::make_unique<JsonSpeech>();
        log((resumed ? "resumed, connection " : "connected, connection ") + connection);
    }

    void refuse(const Value& reply) {
        const std::string code = reply["code"].to<std::string>();
        const std::string words = code + ": " + reply["message"].to<std::string>();
        // This one may pass by itself.
        if (code == "too-many-external") throw ConnectionLost(words);
        refusal_.emplace(words, Place{url_, 0, code}, to_json(reply));
        log(words);
        end();
    }

    std::string written(const Outcome& outcome) {
        const std::uint32_t id = requests_.last();
        if (outcome.error) return speech_->failure(id, *outcome.error);
        try {
            return speech_->answer(id, outcome.result);
        } catch (const UsageError& error) {
            const EnvError failure("the result of the environment cannot be encoded: " + error.message());
            log(failure.message());
            return speech_->failure(id, failure);
        }
    }

    void send_message(std::string payload) { sayings_.push_back({speech_->opcode(), std::move(payload)}); }

    const ProvidedEnv& provided_;
    std::string url_;
    Requests requests_;
    std::unique_ptr<Speech> speech_{};  ///< Once it is welcome.
    std::deque<Saying> sayings_{};
    std::string resume_{};
    double heartbeat_s_ = 0;
    std::optional<ApiError> refusal_{};
};

}  // namespace gym_http::detail

#endif
