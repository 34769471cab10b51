/// @file
/// A line: a WebSocket to a server, of which nothing ever waits.
#ifndef GYM_HTTP_CLIENT_SERVING_LINE_HPP
#define GYM_HTTP_CLIENT_SERVING_LINE_HPP

#include <optional>

#include "gym_http_client/serving/connection.hpp"
#include "gym_http_client/serving/messages.hpp"

namespace gym_http::detail {

/// One WebSocket: being opened, then open. Messages can be sent before it is.
class MessageLine {
public:
    MessageLine(std::shared_ptr<Multi> multi, const Server& server)
        : connection_(std::move(multi), server), handshake_(server) {}

    /// Whether messages go over it.
    bool is_open() const { return state_ == State::open; }
    /// Whether something is to be read that came already.
    bool has_more() const { return has_more_; }
    /// Whether it waits for room to write.
    bool is_writing() const { return !out_.empty(); }
    /// What to wait for; none while libcurl opens the connection.
    curl_socket_t socket() const { return connection_.socket(); }

    /// Does what can be done at once, and appends the messages that came.
    /// @throws LineLost It has ended, or cannot be opened.
    /// @throws ProtocolError What came is no message.
    void poll(std::deque<Message>& arrived) {
        if (state_ == State::dialling && !dial()) return;
        flush();
        receive(arrived);
        if (state_ == State::shaking && limit_->left() <= 0)
            throw LineLost("the server does not answer the handshake");
    }

    /// Sends a message, now or with a later poll.
    /// @throws LineLost It has ended.
    void send(Opcode opcode, std::string_view payload) {
        // Nobody else may foresee what goes over the line.
        append_message(opcode, payload, std::random_device()(), later_);
        if (state_ == State::open) flush();
    }

    /// Says that this is the end; what did not go at once is lost.
    void close() noexcept {
        try {
            // The status 1000: the environment leaves.
            if (state_ == State::open) send(op_close, std::string_view("\x03\xe8", 2));
        } catch (const std::exception&) {
            // Then the other side knows already.
        }
    }

private:
    enum class State { dialling, shaking, open };
    static constexpr double opening_s = 10;
    static constexpr std::size_t piece = std::size_t(64) << 10U;
    static constexpr int most_pieces = 4;

    bool dial() {
        const bool open = connection_.open();
        if (!limit_ && connection_.is_calling()) limit_.emplace(opening_s);
        if (open) {
            if (!limit_) limit_.emplace(opening_s);
            out_ = handshake_.request();
            state_ = State::shaking;
        } else if (limit_ && limit_->left() <= 0) {
            throw LineLost("there is no server: it does not answer");
        }
        return open;
    }

    void flush() {
        if (state_ == State::open && out_.empty()) out_.swap(later_);
        while (sent_ < out_.size()) {
            const std::size_t sent = connection_.send(&out_[sent_], out_.size() - sent_);
            if (sent == 0) return;
            sent_ += sent;
            if (sent_ < out_.size()) continue;
            out_.clear();
            sent_ = 0;
            if (state_ == State::open) out_.swap(later_);
        }
    }

    void receive(std::deque<Message>& arrived) {
        buffer_.resize(piece);
        has_more_ = true;
        // Whatever comes, a frame has to go on.
        for (int pieces = 0; pieces < most_pieces; ++pieces) {
            std::size_t came = 0;
            try {
                came = connection_.receive(buffer_.data(), buffer_.size());
            } catch (const LineLost&) {
                // What was said before the end counts, as why it ends.
                if (state_ == State::shaking) handshake_.cut_off();
                if (!arrived.empty()) return;
                throw;
            }
            if (came == 0) {
                has_more_ = false;
                return;
            }
            take({buffer_.data(), came}, arrived);
        }
    }

    void take(span<const unsigned char> bytes, std::deque<Message>& arrived) {
        if (state_ == State::open) return reader_.feed(bytes, arrived);
        if (!handshake_.take({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) return;
        state_ = State::open;
        const std::string_view early = handshake_.early();
        reader_.feed({reinterpret_cast<const unsigned char*>(early.data()), early.size()}, arrived);
        flush();
    }

    Connection connection_;
    Handshake handshake_;
    MessageReader reader_{std::size_t(64) << 20U};
    State state_ = State::dialling;
    std::optional<Deadline> limit_{};
    std::string out_{};    ///< What is being sent,
    std::size_t sent_ = 0;  ///< so far,
    std::string later_{};  ///< and what follows.
    Bytes buffer_{};
    bool has_more_ = false;
};

}  // namespace gym_http::detail

#endif
