/// @file
/// Frames: the messages of a stream, a header, a head and a body.
#ifndef GYM_HTTP_CLIENT_STREAM_FRAME_HPP
#define GYM_HTTP_CLIENT_STREAM_FRAME_HPP

#include <unordered_map>

#include "gym_http_client/binary.hpp"

namespace gym_http::detail {

enum Form : std::uint8_t { form_none = 0, form_plain = 1, form_typed = 2, form_binary = 3 };

/// A message of a stream, with the position of its body.
struct Frame {
    static constexpr std::size_t header_size = 16;

    std::uint32_t body_size = 0;
    std::uint32_t head_size = 0;
    std::uint16_t status = 0;
    std::uint8_t operation = 0;
    std::uint8_t forms = 0;  ///< Of the body, and 16 times that of the answer.
    std::uint32_t number = 0;

    std::size_t body_start() const { return header_size + head_size; }
    unsigned form() const { return forms & 15U; }

    /// Appends the header of a message.
    void write(std::string& out) const {
        append_u32(out, body_size);
        append_u32(out, head_size);
        out.append(reinterpret_cast<const char*>(&status), 2);
        out += static_cast<char>(operation);
        out += static_cast<char>(forms);
        append_u32(out, number);
    }

    /// Decodes the header of a whole message. @throws ProtocolError It is malformed.
    static Frame read(span<const unsigned char> message) {
        Frame frame;
        if (message.size() < header_size)
            throw ProtocolError("a message has " + std::to_string(message.size()) +
                                " bytes; it has 16 at least");
        const unsigned char* at = message.data();
        std::memcpy(&frame.body_size, at, 4);
        std::memcpy(&frame.head_size, at + 4, 4);
        std::memcpy(&frame.status, at + 8, 2);
        frame.operation = at[10];
        frame.forms = at[11];
        std::memcpy(&frame.number, at + 12, 4);
        const std::uint64_t outcome =
            std::uint64_t(header_size) + frame.head_size + frame.body_size;
        if (outcome != message.size() || frame.head_size > (1U << 16U))
            throw ProtocolError("a message of " + std::to_string(message.size()) +
                                " bytes announces others");
        return frame;
    }

    /// The head, padded for sending; may be empty.
    static std::string head_of(const Json& head) {
        std::string text = write_json(head);
        return text.append(padding_of(text.size()), ' ');
    }

    /// Reads the head of a message. @throws ProtocolError It is no object.
    Value head(span<const unsigned char> message) const {
        if (head_size == 0) return Value();
        Value head = read_json(text_at(message, header_size, head_size));
        if (head.kind() != Kind::dict) throw ProtocolError("the head of a message is no object");
        return head;
    }
};

constexpr std::uint32_t max_signatures = 255;
constexpr std::size_t max_numbered_bytes = std::size_t(16) << 10U;

/// The signatures that this side has sent on a stream.
class Announcing {
public:
    /// Appends the prefix of the leaves of a value.
    void write(const std::string& signature, std::string& out) {
        const auto found = numbers_.find(signature);
        if (found != numbers_.end()) {
            append_u32(out, 0);
            append_u32(out, found->second);
            return;
        }
        const auto number = static_cast<std::uint32_t>(numbers_.size() + 1);
        const bool numbered = number <= max_signatures && signature.size() <= max_numbered_bytes;
        if (numbered) numbers_.emplace(signature, number);
        append_u32(out, static_cast<std::uint32_t>(signature.size()));
        append_u32(out, numbered ? number : 0);
        out += signature;
    }

private:
    std::unordered_map<std::string, std::uint32_t> numbers_{};
};

/// The signatures that the server has sent on a stream.
class Announced {
public:
    /// Decodes a value that extends to the end of a message.
    /// @throws ProtocolError It is malformed, or its signature was not sent.
    Value read(span<const unsigned char> message, std::size_t start,
               std::shared_ptr<const void> owner) {
        const ValueHeader header = ValueHeader::read(message, start);
        const auto signature = signature_of(message, start, header);
        return LeafReader(message, start + 8 + header.size, std::move(owner)).whole(*signature);
    }

private:
    std::shared_ptr<const Signature> signature_of(span<const unsigned char> message,
                                                  std::size_t start, ValueHeader header) {
        const std::string number = std::to_string(header.number);
        if (header.size == 0) {
            const auto found = known_.find(header.number);
            if (found == known_.end())
                throw ProtocolError("a value names signature " + number +
                                    ", which was not sent on this stream");
            return found->second;
        }
        auto compiled = compile(text_at(message, start + 8, header.size));
        if (header.number == 0) return compiled;
        if (header.number > max_signatures || header.size > max_numbered_bytes ||
            !known_.emplace(header.number, compiled).second)
            throw ProtocolError("a value calls its signature " + number +
                                ", which is taken, or more or longer than is allowed");
        return compiled;
    }

    std::unordered_map<std::uint32_t, std::shared_ptr<const Signature>> known_{};
};

}  // namespace gym_http::detail

#endif
