/// @file
/// The server that environments are provided to.
#ifndef GYM_HTTP_CLIENT_SERVING_TARGET_HPP
#define GYM_HTTP_CLIENT_SERVING_TARGET_HPP

#include "gym_http_client/server.hpp"
#include "gym_http_client/serving/standard_streams.hpp"

namespace gym_http {

/// The server that environments are provided to, by a WebSocket, or by plain TCP with
/// `--external-tcp`. A URL converts to one.
///
/// `stdio:` is the server that has started this program, with `--env-command`. From then on,
/// what the program prints goes to standard error. The program ends when its standard input
/// does, without destructors.
struct Target {
    /// The server; for plain TCP its host, its port for that, and its token.
    Server server;
    bool plain_tcp = false;  ///< Whether it is plain TCP.
    bool stdio = false;      ///< Whether it has started this program.

    /// A server.
    Target(Server by_web_socket) : server(std::move(by_web_socket)) {}
    /// A URL, such as `http://127.0.0.1:5000`, `tcp://127.0.0.1:5001` or `stdio:`.
    /// @throws UsageError It is malformed, or no server has started this program.
    Target(const char* address) : Target(std::string(address)) {}
    /// A URL, such as `http://127.0.0.1:5000`, `tcp://127.0.0.1:5001` or `stdio:`.
    /// @throws UsageError It is malformed, or no server has started this program.
    Target(const std::string& address)
        : server(http_of(address)), plain_tcp(is_tcp(address)), stdio(is_stdio(address)) {
        check();
    }
    /// An address, and the server's token.
    /// @throws UsageError It is no address.
    Target(const std::string& address, std::string token_shown)
        : server(http_of(address), std::move(token_shown)),
          plain_tcp(is_tcp(address)),
          stdio(is_stdio(address)) {
        check();
    }

    /// The address, without the token.
    std::string url() const {
        if (stdio) return "stdio:";
        return plain_tcp ? "tcp" + server.url.substr(4) : server.url;
    }

private:
    static bool is_tcp(const std::string& address) { return address.rfind("tcp://", 0) == 0; }
    static bool is_stdio(const std::string& address) { return address == "stdio:"; }
    static std::string http_of(const std::string& address) {
        // Nothing connects to it.
        if (is_stdio(address)) return "http://127.0.0.1:5000";
        return is_tcp(address) ? "http" + address.substr(3) : address;
    }

    void check() const {
        if (stdio) detail::StandardStreams::own();
        if (!plain_tcp || has_port_alone()) return;
        throw UsageError("\"" + url() +
                         "\" is no address of plain TCP: \"tcp://127.0.0.1:5001\" would be");
    }

    /// Whether there are a host and a port, and nothing else.
    bool has_port_alone() const {
        if (server.url.rfind("http://", 0) != 0) return false;
        const std::string place = server.url.substr(7);
        const auto colon = place.rfind(':');
        if (colon == std::string::npos || colon == 0) return false;
        const std::string port = place.substr(colon + 1);
        if (port.empty() || port.size() > 5 || place.find_first_of("/?#") != std::string::npos ||
            port.find_first_not_of("0123456789") != std::string::npos)
            return false;
        const int number = std::stoi(port);
        return number >= 1 && number <= 65535;
    }
};

}  // namespace gym_http

#endif
