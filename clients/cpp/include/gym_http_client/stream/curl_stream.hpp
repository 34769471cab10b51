/// @file
/// A connection to the server that libcurl opened, with a time limit.
#ifndef GYM_HTTP_CLIENT_STREAM_CURL_STREAM_HPP
#define GYM_HTTP_CLIENT_STREAM_CURL_STREAM_HPP

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/role.hpp>

#include "gym_http_client/http.hpp"

namespace gym_http::detail {

namespace net = boost::asio;
using ErrorCode = boost::system::error_code;

/// A stream of bytes for Boost.Beast, with timeouts, which blocking streams of Asio do
/// not have. libcurl handles TLS, proxies and names.
class CurlStream {
public:
    using executor_type = net::io_context::executor_type;

    /// @throws TransportError The connection failed.
    CurlStream(net::io_context& context, const Server& server, const Deadline& deadline)
        : context_(&context), easy_(new_easy()), secured_(server.url.rfind("https://", 0) == 0) {
        CURL* easy = easy_.get();
        curl_easy_setopt(easy, CURLOPT_URL, server.url.c_str());
        curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
        curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
        // WebSockets begin with HTTP/1.1, so TLS must not agree on another version.
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
        const double limit = std::max(deadline.left(), 0.001);
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, std::max(1L, static_cast<long>(limit * 1e3)));
        char words[CURL_ERROR_SIZE] = "";
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, words);
        const CURLcode code = curl_easy_perform(easy);
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, nullptr);
        if (code == CURLE_OK) curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &socket_);
        if (socket_ == CURL_SOCKET_BAD)
            throw TransportError(
                std::string("no connection: ") + (*words ? words : curl_easy_strerror(code)),
                server.url);
    }

    executor_type get_executor() noexcept { return context_->get_executor(); }

    /// Copies what is read from now on to a string; `nullptr` ends that.
    void copy_to(std::string* copy) { copy_ = copy; }

    /// Has all that follows end at some time.
    void set_deadline(const Deadline& deadline) { deadline_ = deadline; }

    template <class Buffers>
    std::size_t read_some(const Buffers& buffers, ErrorCode& error) {
        const net::mutable_buffer buffer = first_of<net::mutable_buffer>(buffers);
        error = {};
        if (buffer.size() == 0) return 0;
        while (true) {
            // An answer is rarely there yet, so to try before waiting is in vain.
            if (!secured_ && !ready(POLLIN, error)) return 0;
            std::size_t size = 0;
            const int outcome = receive(buffer, size);
            if (outcome == 0 && size > 0) {
                if (copy_ != nullptr) copy_->append(static_cast<char*>(buffer.data()), size);
                return size;
            }
            if (outcome == 0) {
                error = net::error::eof;
                return 0;
            }
            if (outcome != EAGAIN) {
                error = ErrorCode(outcome, boost::system::system_category());
                return 0;
            }
            if (secured_ && !ready(POLLIN, error)) return 0;
        }
    }

    template <class Buffers>
    std::size_t write_some(const Buffers& buffers, ErrorCode& error) {
        // Pieces are gathered, so that a small message goes in one packet.
        const std::size_t most = 16384;
        gathered_.resize(most);
        const std::size_t size = net::buffer_copy(net::buffer(gathered_), buffers);
        error = {};
        while (size > 0) {
            std::size_t sent = 0;
            const int outcome = transmit(size, sent);
            if (outcome == 0) return sent;
            if (outcome != EAGAIN) {
                error = ErrorCode(outcome, boost::system::system_category());
                return 0;
            }
            if (!ready(POLLOUT, error)) return 0;
        }
        return 0;
    }

    template <class Buffers>
    std::size_t read_some(const Buffers& buffers) {
        return checked([&](ErrorCode& error) { return read_some(buffers, error); });
    }

    template <class Buffers>
    std::size_t write_some(const Buffers& buffers) {
        return checked([&](ErrorCode& error) { return write_some(buffers, error); });
    }

private:
    template <class Buffer, class Buffers>
    static Buffer first_of(const Buffers& buffers) {
        for (auto at = net::buffer_sequence_begin(buffers);
             at != net::buffer_sequence_end(buffers); ++at) {
            const Buffer buffer(*at);
            if (buffer.size() > 0) return buffer;
        }
        return {};
    }

    template <class Act>
    static std::size_t checked(Act act) {
        ErrorCode error;
        const std::size_t size = act(error);
        if (error) throw boost::system::system_error(error);
        return size;
    }

    /// Returns an `errno`, or 0.
    int receive(const net::mutable_buffer& buffer, std::size_t& size) {
        if (secured_)
            return errno_of(curl_easy_recv(easy_.get(), buffer.data(), buffer.size(), &size));
        const ssize_t outcome = ::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (outcome < 0) return errno == EINTR ? EAGAIN : errno;
        size = static_cast<std::size_t>(outcome);
        return 0;
    }

    int transmit(std::size_t size, std::size_t& sent) {
        if (secured_)
            return errno_of(curl_easy_send(easy_.get(), gathered_.data(), size, &sent));
        const ssize_t outcome =
            ::send(socket_, gathered_.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (outcome < 0) return errno == EINTR ? EAGAIN : errno;
        sent = static_cast<std::size_t>(outcome);
        return 0;
    }

    static int errno_of(CURLcode code) {
        return code == CURLE_OK ? 0 : code == CURLE_AGAIN ? EAGAIN : EIO;
    }

    bool ready(short events, ErrorCode& error) {
        while (true) {
            const double left = deadline_.left();
            pollfd waiting{socket_, events, 0};
            const int found =
                left <= 0 ? 0
                          : ::poll(&waiting, 1, static_cast<int>(std::min(left * 1e3 + 1, 1e6)));
            if (found > 0) return true;
            if (found == 0 && deadline_.left() <= 0) {
                error = net::error::timed_out;
                return false;
            }
            if (found < 0 && errno != EINTR) {
                error = ErrorCode(errno, boost::system::system_category());
                return false;
            }
        }
    }

    net::io_context* context_;
    Easy easy_;
    bool secured_;
    curl_socket_t socket_ = CURL_SOCKET_BAD;
    Deadline deadline_{0};
    std::string* copy_ = nullptr;
    std::vector<char> gathered_{};
};

/// Boost.Beast calls this for streams that are not its own; libcurl closes ours.
inline void teardown(boost::beast::role_type, CurlStream&, ErrorCode& error) { error = {}; }

}  // namespace gym_http::detail

#endif
