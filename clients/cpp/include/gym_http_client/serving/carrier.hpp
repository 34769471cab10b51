/// @file
/// Carriers: how messages are cut out of a connection's bytes.
#ifndef GYM_HTTP_CLIENT_SERVING_CARRIER_HPP
#define GYM_HTTP_CLIENT_SERVING_CARRIER_HPP

#include "gym_http_client/serving/handshake.hpp"

namespace gym_http::detail {

/// Bytes that a message may have.
constexpr std::size_t max_message = std::size_t(64) << 20U;

/// Cuts messages out of the bytes of one connection, and makes bytes of messages.
class Carrier {
public:
    Carrier() = default;
    Carrier(const Carrier&) = delete;
    Carrier& operator=(const Carrier&) = delete;
    virtual ~Carrier() = default;

    /// The bytes before all messages; may be empty.
    virtual std::string opening() const { return ""; }
    /// Whether messages may go.
    virtual bool is_open() const { return true; }
    /// Parses bytes, and appends the completed messages.
    /// @throws ConnectionLost The server refuses.
    /// @throws ProtocolError A server must not send them.
    virtual void feed(span<const unsigned char> bytes, std::deque<Message>& arrived) = 0;
    /// Appends the bytes of a message.
    virtual void append(Opcode opcode, std::string_view payload, std::string& out) = 0;
    /// Appends the bytes that close the connection.
    virtual void append_close(std::string&) {}
    /// Handles the end of a connection before it was open.
    /// @throws ConnectionLost With the reason.
    virtual void cut_off() const { throw ConnectionLost("the connection was lost"); }
};

/// A WebSocket.
class WebSocketCarrier : public Carrier {
public:
    explicit WebSocketCarrier(const Server& server) : handshake_(server) {}

    std::string opening() const override { return handshake_.request(); }
    bool is_open() const override { return open_; }

    void feed(span<const unsigned char> bytes, std::deque<Message>& arrived) override {
        if (open_) return reader_.feed(bytes, arrived);
        open_ = handshake_.take({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
        if (!open_) return;
        const std::string_view early = handshake_.early();
        reader_.feed({reinterpret_cast<const unsigned char*>(early.data()), early.size()}, arrived);
    }

    void append(Opcode opcode, std::string_view payload, std::string& out) override {
        // Masks must be unpredictable.
        append_message(opcode, payload, std::random_device()(), out);
    }

    void append_close(std::string& out) override {
        // The status 1000: the environment leaves.
        append(op_close, std::string_view("\x03\xe8", 2), out);
    }

    void cut_off() const override { handshake_.cut_off(); }

private:
    Handshake handshake_;
    MessageReader reader_{max_message};
    bool open_ = false;
};

/// Messages after their counts of bytes, which have 32 bits, the lowest first.
class CountedCarrier : public Carrier {
public:
    void feed(span<const unsigned char> bytes, std::deque<Message>& arrived) override {
        const unsigned char* at = bytes.begin();
        while (at != bytes.end()) {
            if (!payload_) {
                take_count(*at++);
            } else {
                const auto missing = size_ - payload_->size();
                const auto size = std::min<std::size_t>(std::size_t(bytes.end() - at), missing);
                payload_->insert(payload_->end(), at, at + size);
                at += size;
            }
            if (payload_ && payload_->size() == size_) end(arrived);
        }
    }

    void append(Opcode, std::string_view payload, std::string& out) override {
        // The server refuses other messages that are too large, and the agent gets the error.
        if (std::uint64_t(payload.size()) > std::numeric_limits<std::uint32_t>::max())
            throw ConnectionLost("a message has more than 4294967295 bytes");
        for (unsigned shift = 0; shift < 32; shift += 8)
            out += static_cast<char>(payload.size() >> shift & 255U);
        out += payload;
    }

private:
    void take_count(unsigned char byte) {
        size_ |= std::size_t(byte) << 8U * counted_;
        if (++counted_ < 4) return;
        if (size_ > max_message)
            throw ProtocolError("a message announces " + std::to_string(size_) +
                                " bytes; the limit is " + std::to_string(max_message));
        payload_ = std::make_shared<Bytes>();
        // At most the received bytes: the announced number may be wrong.
        payload_->reserve(std::min<std::size_t>(size_, std::size_t(1) << 20U));
    }

    void end(std::deque<Message>& arrived) {
        arrived.push_back({op_counted, std::move(payload_)});
        payload_ = nullptr;
        size_ = 0;
        counted_ = 0;
    }

    std::size_t size_ = 0;
    unsigned counted_ = 0;  ///< Received bytes of the count.
    std::shared_ptr<Bytes> payload_{};
};

}  // namespace gym_http::detail

#endif
