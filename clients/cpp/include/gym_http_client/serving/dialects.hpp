/// @file
/// Dialects: the messages between a server and an external environment.
#ifndef GYM_HTTP_CLIENT_SERVING_DIALECTS_HPP
#define GYM_HTTP_CLIENT_SERVING_DIALECTS_HPP

#include "gym_http_client/serving/messages.hpp"
#include "gym_http_client/serving/reply.hpp"
#include "gym_http_client/stream/frame.hpp"

namespace gym_http::detail {

/// A message of the server: a request, or `ping`, `pong` or `fault`.
struct ServerMessage {
    std::string type{};
    std::uint32_t id = 0;
    Value given{};  ///< A dict: its arguments.

    /// A member that is present and not null.
    const Value* find(std::string_view name) const {
        const Value* found = given.kind() == Kind::dict ? given.find(name) : nullptr;
        return found == nullptr || found->is_none() ? nullptr : found;
    }

    /// A member that is a string; else nothing.
    std::string text(std::string_view name) const {
        const Value* found = find(name);
        return found != nullptr && found->kind() == Kind::text ? found->text() : "";
    }
};

/// JSON text of a string with any bytes, such as that of an exception.
inline std::string careful_json(const Json& json) {
    return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// Reads and writes the messages of one connection.
class Speech {
public:
    Speech() = default;
    Speech(const Speech&) = delete;
    Speech& operator=(const Speech&) = delete;
    virtual ~Speech() = default;

    virtual Opcode opcode() const = 0;
    /// @throws ProtocolError The message is malformed.
    virtual ServerMessage read(const Message& message) = 0;
    /// @throws UsageError The result cannot be encoded.
    virtual std::string answer(std::uint32_t id, const Value& result) = 0;
    virtual std::string failure(std::uint32_t id, const EnvError& error) = 0;
    virtual std::string ping() = 0;
    virtual std::string pong() = 0;
};

/// JSON, with values as plain as thin clients have them.
class JsonSpeech : public Speech {
public:
    Opcode opcode() const override { return op_text; }

    ServerMessage read(const Message& message) override {
        if (message.opcode == op_binary) throw ProtocolError("a message is no text");
        ServerMessage received;
        received.given = read_json(message.text());
        received.type = received.text("type");
        if (received.type.empty()) throw ProtocolError("a message has no type");
        if (const Value* id = received.find("id")) {
            const std::int64_t number = id->kind() == Kind::integer ? id->to<std::int64_t>() : -1;
            if (number < 0 || number > std::numeric_limits<std::uint32_t>::max())
                throw ProtocolError("an id is no integer from 0 to 4294967295");
            received.id = static_cast<std::uint32_t>(number);
        }
        return received;
    }

    std::string answer(std::uint32_t id, const Value& result) override {
        std::string text = "{\"id\":" + std::to_string(id) + ",\"result\":";
        write_plain(result, text);
        return text += '}';
    }

    std::string failure(std::uint32_t id, const EnvError& error) override {
        return careful_json(
            {{"id", id}, {"error", {{"code", error.code()}, {"message", error.message()}}}});
    }

    std::string ping() override { return "{\"type\":\"ping\"}"; }
    std::string pong() override { return "{\"type\":\"pong\"}"; }
};

/// The frames of streams, with the roles turned round.
class BinarySpeech : public Speech {
public:
    Opcode opcode() const override { return op_binary; }

    ServerMessage read(const Message& message) override {
        if (message.opcode == op_text) throw ProtocolError("a message is text");
        const span<const unsigned char> bytes(message.payload->data(), message.payload->size());
        const Frame frame = Frame::read(bytes);
        ServerMessage received;
        received.type = type_of(frame.operation);
        received.id = frame.number;
        if (received.type == "init") {
            announced_ = Announced();
            announcing_ = Announcing();
        }
        const std::size_t start = frame.body_start();
        if (frame.body_size == 0) return received;
        received.given = frame.form() == form_binary
                         ? announced_.read(bytes, start, message.payload)
                         : read_json(text_at(bytes, start, frame.body_size));
        return received;
    }

    std::string answer(std::uint32_t id, const Value& result) override {
        const Parts parts = take_apart(result);
        std::string body;
        announcing_.write(parts.signature, body);
        return framed(200, 0, form_binary, id, body += parts.leaves);
    }

    std::string failure(std::uint32_t id, const EnvError& error) override {
        const Json outcome{{"code", error.code()}, {"message", error.message()}};
        return framed(502, 0, form_plain, id, careful_json(outcome));
    }

    std::string ping() override { return framed(0, 50, form_none, 0, ""); }
    std::string pong() override { return framed(0, 51, form_none, 0, ""); }

private:
    static std::string type_of(unsigned operation) {
        static constexpr std::pair<unsigned, const char*> types[] = {
            {1, "reset"},  {2, "step"},  {3, "render"}, {48, "init"},
            {49, "close"}, {50, "ping"}, {51, "pong"},  {52, "fault"}};
        for (const auto& [number, type] : types) {
            if (number == operation) return type;
        }
        return "operation " + std::to_string(operation);
    }

    static std::string framed(std::uint16_t status, std::uint8_t operation, Form form,
                              std::uint32_t id, const std::string& body) {
        Frame frame;
        frame.body_size = static_cast<std::uint32_t>(body.size());
        frame.status = status;
        frame.operation = operation;
        frame.forms = form;
        frame.number = id;
        std::string message;
        message.reserve(Frame::header_size + body.size());
        frame.write(message);
        return message += body;
    }

    Announced announced_{};
    Announcing announcing_{};
};

}  // namespace gym_http::detail

#endif
