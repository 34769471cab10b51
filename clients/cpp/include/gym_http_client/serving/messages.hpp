/// @file
/// Messages of a WebSocket (RFC 6455): a client's written, a server's read.
#ifndef GYM_HTTP_CLIENT_SERVING_MESSAGES_HPP
#define GYM_HTTP_CLIENT_SERVING_MESSAGES_HPP

#include <deque>
#include <random>

#include "gym_http_client/text.hpp"

namespace gym_http::detail {

enum Opcode : std::uint8_t {
    op_more = 0,
    op_text = 1,
    op_binary = 2,
    op_close = 8,
    op_ping = 9,
    op_pong = 10,
    op_counted = 16  ///< Without a WebSocket, the kind of a message is unknown.
};

/// The connection has ended, or could not be opened.
class ConnectionLost : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A message, or a control frame.
struct Message {
    Opcode opcode{};
    std::shared_ptr<const Bytes> payload{};

    std::string_view text() const {
        return {reinterpret_cast<const char*>(payload->data()), payload->size()};
    }
};

/// Appends a message of a client's, masked, as a single frame, or as its beginning.
inline void append_message(Opcode opcode, std::string_view payload, std::uint32_t mask,
                           std::string& out, bool whole = true) {
    const std::size_t size = payload.size();
    const unsigned extra = size < 126 ? 0 : size < 65536 ? 2 : 8;
    out += static_cast<char>((whole ? 0x80 : 0) | opcode);
    out += static_cast<char>(0x80 | (extra == 0 ? size : extra == 2 ? 126U : 127U));
    for (unsigned byte = extra; byte > 0; --byte)
        out += static_cast<char>(std::uint64_t(size) >> (8 * (byte - 1)) & 255U);
    out.append(reinterpret_cast<const char*>(&mask), sizeof mask);
    const std::size_t start = out.size();
    out += payload;
    std::size_t at = start;
    for (; at + sizeof mask <= out.size(); at += sizeof mask) {
        std::uint32_t word = 0;
        std::memcpy(&word, &out[at], sizeof word);
        word ^= mask;
        std::memcpy(&out[at], &word, sizeof word);
    }
    for (std::uint32_t rest = mask; at < out.size(); ++at, rest >>= 8U)
        out[at] = static_cast<char>(out[at] ^ static_cast<char>(rest & 255U));
}

/// Checks the payload of a close frame: a status, and a reason.
inline void check_close(std::string_view payload) {
    if (payload.empty()) return;
    unsigned code = 0;
    if (payload.size() > 1)
        code = static_cast<unsigned char>(payload[0]) * 256U +
               static_cast<unsigned char>(payload[1]);
    const bool known = code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006;
    if (!known && (code < 3000 || code >= 5000))
        throw ProtocolError("a close has the status " + std::to_string(code));
    if (utf8_of(payload.substr(2)) != Utf8::proper)
        throw ProtocolError("the reason of a close is not in UTF-8");
}

/// Cuts messages out of the bytes of one WebSocket.
class MessageReader {
public:
    explicit MessageReader(std::size_t max_message) : max_message_(max_message) {}

    /// Parses bytes, and appends the completed messages.
    /// @throws ProtocolError A server must not send them.
    void feed(span<const unsigned char> bytes, std::deque<Message>& arrived) {
        const unsigned char* at = bytes.begin();
        while (at != bytes.end()) {
            at = in_payload_ ? take_payload(at, bytes.end()) : take_head(at);
            if (in_payload_ && payload_->size() == length_) end(arrived);
        }
    }

private:
    const unsigned char* take_head(const unsigned char* at) {
        head_[head_size_++] = *at++;
        if (head_size_ < 2) return at;
        if ((head_[1] & 0x80U) != 0) throw ProtocolError("a frame of the server is masked");
        const unsigned outcome = head_[1] & 127U;
        const std::size_t size = outcome < 126 ? 2 : outcome == 126 ? 4 : 10;
        if (head_size_ < size) return at;
        std::uint64_t length = outcome < 126 ? outcome : 0;
        for (std::size_t each = 2; each < size; ++each) length = length << 8U | head_[each];
        if (size > 2 && length < (size == 4 ? 126U : 65536U))
            throw ProtocolError("the length of a frame is not in the shortest form");
        begin(length);
        return at;
    }

    void begin(std::uint64_t length) {
        head_size_ = 0;
        const unsigned opcode = head_[0] & 15U;
        const bool whole = (head_[0] & 0x80U) != 0;
        if ((head_[0] & 0x70U) != 0) throw ProtocolError("a frame has a reserved bit");
        if (opcode > 10 || (opcode > 2 && opcode < 8))
            throw ProtocolError("a frame has the unknown opcode " + std::to_string(opcode));
        if (opcode >= 8 && (length > 125 || !whole))
            throw ProtocolError("a control frame is too long or in fragments");
        if (opcode < 8 && (opcode == op_more) != bool(begun_))
            throw ProtocolError("a message begins within another, or goes on without one");
        const std::size_t before = opcode == op_more ? begun_->size() : 0;
        if (length > max_message_ - before)
            throw ProtocolError("a message has more than " + std::to_string(max_message_) +
                                " bytes");
        payload_ = opcode == op_more ? std::move(begun_) : std::make_shared<Bytes>();
        // At most the received bytes: the announced number may be wrong.
        length_ = before + static_cast<std::size_t>(length);
        payload_->reserve(std::min<std::size_t>(length_, std::size_t(1) << 20U));
        in_payload_ = true;
    }

    const unsigned char* take_payload(const unsigned char* at, const unsigned char* end) {
        const auto size = std::min<std::size_t>(std::size_t(end - at), length_ - payload_->size());
        payload_->insert(payload_->end(), at, at + size);
        return at + size;
    }

    void end(std::deque<Message>& arrived) {
        in_payload_ = false;
        const auto opcode = static_cast<Opcode>(head_[0] & 15U);
        if (opcode == op_text || opcode == op_binary) opcode_ = opcode;
        if (opcode < 8 && (head_[0] & 0x80U) == 0) {
            begun_ = std::move(payload_);
            return;
        }
        Message message{opcode < 8 ? opcode_ : opcode, std::move(payload_)};
        if (message.opcode == op_text && utf8_of(message.text()) != Utf8::proper)
            throw ProtocolError("a text is not in UTF-8");
        if (message.opcode == op_close) check_close(message.text());
        arrived.push_back(std::move(message));
    }

    std::size_t max_message_;
    std::array<unsigned char, 10> head_{};
    std::size_t head_size_ = 0;
    bool in_payload_ = false;
    std::size_t length_ = 0;
    std::shared_ptr<Bytes> payload_{};
    std::shared_ptr<Bytes> begun_{};  ///< A message that continues in other frames.
    Opcode opcode_ = op_text;         ///< Of the message.
};

}  // namespace gym_http::detail

#endif
