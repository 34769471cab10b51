/// @file
/// The server: where it is, and how long to wait for it.
#ifndef GYM_HTTP_CLIENT_SERVER_HPP
#define GYM_HTTP_CLIENT_SERVER_HPP

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <string_view>

#include "gym_http_client/error.hpp"

namespace gym_http {

/// A warning of the server or the environment, as a local user would see it.
struct Warning {
    std::string category{};  ///< Its class in Python, such as `UserWarning`.
    std::string message{};   ///< Its text.
};

/// Prints a warning to `std::cerr`, without the colours of a terminal.
inline void print_warning(const Warning& warning) {
    std::string text;
    bool coloured = false;
    for (const char each : warning.message) {
        if (each == '\x1b') coloured = true;
        if (!coloured) text += each;
        if (each == 'm') coloured = false;
    }
    std::cerr << warning.category + ": " + text + "\n";
}

/// Where a server is, and how requests reach it. An address alone becomes one.
struct Server {
    std::string url;    ///< As `http://127.0.0.1:5000`.
    std::string token;  ///< Sent to the server; from `GHS_TOKEN` by default; may be empty.
    double timeout_s = 60;          ///< For each call with its retries.
    double try_timeout_s = 20;      ///< For each attempt; then it is repeated.
    double first_contact_s = 5;     ///< Until a server has answered once.
    std::size_t max_body = std::size_t(256) << 20U;  ///< Bytes of an answer.
    /// Called with each warning of the server and the environment; may be empty.
    std::function<void(const Warning&)> on_warning = print_warning;

    /// A server at an address.
    /// @throws UsageError It is no address of HTTP.
    Server(const char* address) : Server(std::string(address)) {}
    /// A server at an address, with a token.
    /// @throws UsageError It is no address of HTTP.
    Server(std::string address, std::string token_shown = token_of_environment())
        : url(std::move(address)), token(std::move(token_shown)) {
        const auto scheme = url.find("://");
        if (url.rfind("http://", 0) != 0 && url.rfind("https://", 0) != 0)
            refuse(scheme == std::string::npos ? "" : url.substr(0, scheme + 3));
        while (url.back() == '/') url.pop_back();
        // An error would show a token in the URL.
        const auto host = scheme + 3;
        const auto path = std::min(url.find('/', host), url.size());
        const auto at = url.rfind('@', path);
        if (at != std::string::npos && at >= host) {
            const auto colon = url.find(':', host);
            if (colon < at) token = url.substr(colon + 1, at - colon - 1);
            url.erase(host, at + 1 - host);
        }
        // Each request has "/v1" in its own path.
        const auto rest = url.find('/', host);
        if (rest != std::string::npos && url.size() >= rest + 3 &&
            url.compare(url.size() - 3, 3, "/v1") == 0) {
            url.erase(url.size() - 3);
            while (url.back() == '/') url.pop_back();
        }
    }

private:
    [[noreturn]] void refuse(const std::string& scheme) const {
        if (is_env_id(url))
            throw UsageError("\"" + url +
                             "\" is no address of a server, but the name of an environment: the "
                             "address comes first, as in Env(\"http://127.0.0.1:5000\", \"" +
                             url + "\")");
        std::string rest = url.substr(scheme.size());
        rest.erase(0, rest.find_first_not_of('/'));
        // As below, without a token.
        const auto at = rest.rfind('@', rest.find('/'));
        if (at != std::string::npos) rest.erase(0, at + 1);
        throw UsageError("\"" + scheme + rest + "\" is no address of a server: \"http://" +
                         (rest.empty() ? "127.0.0.1:5000" : rest) + "\" would be");
    }

    /// Whether a text ends with a version, as `CartPole-v1`, or begins with `external/`.
    static bool is_env_id(const std::string& text) {
        const auto version = text.find_last_not_of("0123456789");
        const bool versioned = version != std::string::npos && version > 1 &&
                               version + 1 < text.size() &&
                               text.compare(version - 1, 2, "-v") == 0;
        return versioned || text.rfind("external/", 0) == 0;
    }

    static std::string token_of_environment() {
        const char* given = std::getenv("GHS_TOKEN");
        return given == nullptr ? "" : given;
    }
};

namespace detail {

using Clock = std::chrono::steady_clock;

/// When a call has to be over.
class Deadline {
public:
    explicit Deadline(double seconds)
        : end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(std::min(seconds, 1e8)))) {}

    /// Seconds that are left; 0 or less after the deadline.
    double left() const {
        return std::chrono::duration<double>(end_ - Clock::now()).count();
    }

private:
    Clock::time_point end_;
};

/// Draws from the system's random source, so that names are unique.
inline std::string random_name() {
    static constexpr char hex[] = "0123456789abcdef";
    std::random_device device;
    std::string name;
    for (int word = 0; word < 4; ++word) {
        const std::uint32_t drawn = device();
        for (unsigned shift = 0; shift < 32; shift += 4) name += hex[drawn >> shift & 15U];
    }
    return name;
}

}  // namespace detail

}  // namespace gym_http

#endif
