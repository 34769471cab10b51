/// @file
/// A connection: messages to and from a server, of which nothing ever waits.
#ifndef GYM_HTTP_CLIENT_SERVING_MESSAGE_CONNECTION_HPP
#define GYM_HTTP_CLIENT_SERVING_MESSAGE_CONNECTION_HPP

#include <optional>

#include "gym_http_client/serving/carrier.hpp"
#include "gym_http_client/serving/connection.hpp"

namespace gym_http::detail {

inline std::unique_ptr<Connection> connection_to(const Target& target,
                                                 std::shared_ptr<Multi> multi) {
    if (target.stdio) return std::make_unique<StdioConnection>();
    return std::make_unique<CurlConnection>(std::move(multi), target);
}

inline std::unique_ptr<Carrier> carrier_to(const Target& target) {
    if (target.plain_tcp || target.stdio) return std::make_unique<CountedCarrier>();
    return std::make_unique<WebSocketCarrier>(target.server);
}

/// One connection: being opened, then open. Messages can be sent before it is.
class MessageConnection {
public:
    MessageConnection(std::shared_ptr<Multi> multi, const Target& target)
        : connection_(connection_to(target, std::move(multi))), carrier_(carrier_to(target)) {}

    /// Whether messages go over it.
    bool is_open() const { return dialled_ && carrier_->is_open(); }
    /// Whether received bytes are still to be parsed.
    bool has_more() const { return has_more_; }
    /// Whether it waits for room to write.
    bool is_writing() const { return !out_.empty(); }
    /// The socket to wait for; none while libcurl opens the connection.
    curl_socket_t socket() const { return connection_->socket(); }

    /// Does all that is possible at once, and appends the received messages.
    /// @throws ConnectionLost It has ended, or cannot be opened.
    /// @throws ProtocolError A message is malformed.
    void poll(std::deque<Message>& arrived) {
        if (!dialled_ && !dial()) return;
        flush();
        receive(arrived);
        if (!is_open() && limit_->left() <= 0)
            throw ConnectionLost("the server does not answer the handshake");
    }

    /// Sends a message, now or with a later poll.
    /// @throws ConnectionLost It has ended.
    void send(Opcode opcode, std::string_view payload) {
        carrier_->append(opcode, payload, later_);
        if (is_open()) flush();
    }

    /// Closes the connection; unsent bytes are lost.
    void close() noexcept {
        try {
            if (!is_open()) return;
            carrier_->append_close(later_);
            flush();
        } catch (const std::exception&) {
            // Then the other side knows already.
        }
    }

private:
    static constexpr double opening_s = 10;
    static constexpr std::size_t piece = std::size_t(64) << 10U;
    static constexpr int most_pieces = 4;

    bool dial() {
        dialled_ = connection_->open();
        if (!limit_ && (dialled_ || connection_->is_calling())) limit_.emplace(opening_s);
        if (dialled_)
            out_ = carrier_->opening();
        else if (limit_ && limit_->left() <= 0)
            throw ConnectionLost("there is no server: it does not answer");
        return dialled_;
    }

    void flush() {
        if (is_open() && out_.empty()) out_.swap(later_);
        while (sent_ < out_.size()) {
            const std::size_t sent = connection_->send(&out_[sent_], out_.size() - sent_);
            if (sent == 0) return;
            sent_ += sent;
            if (sent_ < out_.size()) continue;
            out_.clear();
            sent_ = 0;
            if (is_open()) out_.swap(later_);
        }
    }

    void receive(std::deque<Message>& arrived) {
        buffer_.resize(piece);
        has_more_ = true;
        // A frame must be completed in any case.
        for (int pieces = 0; pieces < most_pieces; ++pieces) {
            std::size_t size = 0;
            try {
                size = connection_->receive(buffer_.data(), buffer_.size());
            } catch (const ConnectionLost&) {
                // Messages before the end count, also for its reason.
                if (!is_open()) carrier_->cut_off();
                if (!arrived.empty()) return;
                throw;
            }
            if (size == 0) {
                has_more_ = false;
                return;
            }
            const bool was_open = is_open();
            carrier_->feed({buffer_.data(), size}, arrived);
            if (!was_open && is_open()) flush();
        }
    }

    std::unique_ptr<Connection> connection_;
    std::unique_ptr<Carrier> carrier_;
    bool dialled_ = false;
    std::optional<Deadline> limit_{};
    std::string out_{};    ///< Bytes to send,
    std::size_t sent_ = 0;  ///< those already sent,
    std::string later_{};  ///< and those that follow.
    Bytes buffer_{};
    bool has_more_ = false;
};

}  // namespace gym_http::detail

#endif
