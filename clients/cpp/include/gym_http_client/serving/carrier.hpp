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

    /// What goes before all messages; empty if nothing does.
    virtual std::string opening() const { return ""; }
    /// Whether messages may go.
    virtual bool is_open() const { return true; }
    /// Takes bytes, and appends the messages that they end.
    /// @throws LineLost There is no server.
    /// @throws ProtocolError They are not what a server may send.
    virtual void feed(span<const unsigned char> bytes, std::deque<Message>& arrived) = 0;
    /// Appends the bytes of a message.
    virtual void append(Opcode opcode, std::string_view payload, std::string& out) = 0;
    /// Appends what says that the environment leaves.
    virtual void append_farewell(std::string&) {}
    /// Takes that the connection has ended before it was open.
    /// @throws LineLost Says why.
    virtual void cut_off() const { throw LineLost("the connection was lost"); }
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
        // Nobody else may foresee what goes over the line.
        append_message(opcode, payload, std::random_device()(), out);
    }

    void append_farewell(std::string& out) override {
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
        // Others that are too large the server refuses, and the agent is told.
        if (std::uint64_t(payload.size()) > std::numeric_limits<std::uint32_t>::max())
            throw LineLost("a message has more than 4294967295 bytes");
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
        // Not more than comes: the number may be a lie.
        payload_->reserve(std::min<std::size_t>(size_, std::size_t(1) << 20U));
    }

    void end(std::deque<Message>& arrived) {
        arrived.push_back({op_counted, std::move(payload_)});
        payload_ = nullptr;
        size_ = 0;
        counted_ = 0;
    }

    std::size_t size_ = 0;
    unsigned counted_ = 0;  ///< Bytes of the count that have come.
    std::shared_ptr<Bytes> payload_{};
};

}  // namespace gym_http::detail

#endif
