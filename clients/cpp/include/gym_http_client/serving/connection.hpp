/// @file
/// Connections of bytes, over which a provider converses with a server.
#ifndef GYM_HTTP_CLIENT_SERVING_CONNECTION_HPP
#define GYM_HTTP_CLIENT_SERVING_CONNECTION_HPP

#include "gym_http_client/http.hpp"
#include "gym_http_client/serving/messages.hpp"
#include "gym_http_client/serving/target.hpp"

namespace gym_http::detail {

/// The common part of a provider's connections: libcurl's threads for names, and the
/// certificates, which take long to load.
class Multi {
public:
    Multi() : handle_((new_easy(), curl_multi_init())) {
        if (handle_ == nullptr) throw TransportError("libcurl cannot be set up", "");
    }
    Multi(const Multi&) = delete;
    Multi& operator=(const Multi&) = delete;
    ~Multi() { curl_multi_cleanup(handle_); }

    CURLM* handle() const { return handle_; }

    /// Waits for libcurl or for a socket, up to a time.
    void wait(curl_socket_t socket, bool writing, double seconds) const {
        curl_waitfd each{};
        each.fd = socket;
        each.events = static_cast<short>(writing ? CURL_WAIT_POLLIN | CURL_WAIT_POLLOUT
                                                 : CURL_WAIT_POLLIN);
        const int limit = static_cast<int>(std::clamp(seconds, 0.0, 60.0) * 1e3) + 1;
        curl_multi_poll(handle_, &each, socket == CURL_SOCKET_BAD ? 0 : 1, limit, nullptr);
    }

    /// Ends a wait, from whichever thread.
    void wake() const { curl_multi_wakeup(handle_); }

private:
    CURLM* handle_;
};

/// A connection to a server: being opened, then open.
class Connection {
public:
    Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    virtual ~Connection() = default;

    /// Continues opening it; returns whether it is open.
    /// @throws ConnectionLost It cannot be opened.
    virtual bool open() = 0;
    /// Whether the name is known, and the server is being called.
    virtual bool is_calling() const = 0;
    /// The socket to wait for, once it is open.
    virtual curl_socket_t socket() const = 0;

    /// Receives the available bytes; 0 if there are none.
    /// @throws ConnectionLost It has ended.
    virtual std::size_t receive(void* data, std::size_t size) = 0;

    /// Sends as many bytes as possible; returns their number.
    /// @throws ConnectionLost It has ended.
    virtual std::size_t send(const void* data, std::size_t size) = 0;
};

/// A connection of which nothing ever waits. libcurl knows of TLS, of proxies and of
/// names, which a thread of its own looks up.
class CurlConnection final : public Connection {
public:
    CurlConnection(std::shared_ptr<Multi> multi, const Target& target)
        : multi_(std::move(multi)), easy_(new_easy()) {
        CURL* easy = easy_.get();
        curl_easy_setopt(easy, CURLOPT_URL, target.server.url.c_str());
        curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
        curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
        // A proxy for HTTP cannot forward other protocols.
        if (target.plain_tcp) curl_easy_setopt(easy, CURLOPT_PROXY, "");
        // WebSockets begin with HTTP/1.1, so TLS must not agree on another version.
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
        curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, &found);
        curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, this);
#if LIBCURL_VERSION_NUM >= 0x075700
        // Otherwise giving up would wait for the thread that looks up the name.
        curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
        curl_multi_add_handle(multi_->handle(), easy);
    }
    ~CurlConnection() override { curl_multi_remove_handle(multi_->handle(), easy_.get()); }

    bool open() override {
        if (socket_ != CURL_SOCKET_BAD) return true;
        int running = 0;
        curl_multi_perform(multi_->handle(), &running);
        int left = 0;
        for (CURLMsg* received = nullptr;
             (received = curl_multi_info_read(multi_->handle(), &left)) != nullptr;) {
            if (received->msg != CURLMSG_DONE || received->easy_handle != easy_.get()) continue;
            const CURLcode code = received->data.result;
            if (code == CURLE_OK)
                curl_easy_getinfo(easy_.get(), CURLINFO_ACTIVESOCKET, &socket_);
            if (socket_ != CURL_SOCKET_BAD) return true;
            throw ConnectionLost("there is no server: " + std::string(curl_easy_strerror(code)));
        }
        return false;
    }

    bool is_calling() const override { return calling_; }
    curl_socket_t socket() const override { return socket_; }

    std::size_t receive(void* data, std::size_t size) override {
        std::size_t received = 0;
        const CURLcode code = curl_easy_recv(easy_.get(), data, size, &received);
        if (code == CURLE_AGAIN) return 0;
        if (code != CURLE_OK || received == 0) throw ConnectionLost("the connection was lost");
        return received;
    }

    std::size_t send(const void* data, std::size_t size) override {
        std::size_t sent = 0;
        const CURLcode code = curl_easy_send(easy_.get(), data, size, &sent);
        if (code == CURLE_AGAIN) return 0;
        if (code != CURLE_OK) throw ConnectionLost("the connection was lost");
        return sent;
    }

private:
    static int found(void* self, curl_socket_t, curlsocktype) {
        static_cast<CurlConnection*>(self)->calling_ = true;
        return CURL_SOCKOPT_OK;
    }

    std::shared_ptr<Multi> multi_;
    Easy easy_;
    curl_socket_t socket_ = CURL_SOCKET_BAD;
    bool calling_ = false;
};

/// The connection to the server that has started this program. It can be opened once.
class StdioConnection final : public Connection {
public:
    ~StdioConnection() override { streams_.close(); }

    bool open() override { return true; }
    bool is_calling() const override { return true; }
    curl_socket_t socket() const override {
        return static_cast<curl_socket_t>(streams_.input());
    }
    std::size_t receive(void* data, std::size_t size) override {
        return streams_.receive(data, size);
    }
    std::size_t send(const void* data, std::size_t size) override {
        return streams_.send(data, size);
    }

private:
    StandardStreams& streams_ = StandardStreams::own();
};

}  // namespace gym_http::detail

#endif
