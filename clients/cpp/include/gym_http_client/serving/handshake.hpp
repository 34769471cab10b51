/// @file
/// The handshake by which a connection becomes a WebSocket.
#ifndef GYM_HTTP_CLIENT_SERVING_HANDSHAKE_HPP
#define GYM_HTTP_CLIENT_SERVING_HANDSHAKE_HPP

#include "gym_http_client/json.hpp"
#include "gym_http_client/server.hpp"
#include "gym_http_client/serving/messages.hpp"
#include "gym_http_client/serving/sha1.hpp"

namespace gym_http::detail {

/// A request to upgrade a connection, and its answer.
class Handshake {
public:
    explicit Handshake(const Server& server) {
        Bytes drawn;
        std::random_device device;
        for (int byte = 0; byte < 16; ++byte)
            drawn.push_back(static_cast<unsigned char>(device() & 255U));
        key_ = write_base64({drawn.data(), drawn.size()});
        const auto host = server.url.find("://") + 3;
        const auto path = std::min(server.url.find('/', host), server.url.size());
        request_ = "GET " + server.url.substr(path) + "/v1/external/ HTTP/1.1\r\nHost: " +
                   server.url.substr(host, path - host) +
                   "\r\nConnection: Upgrade\r\nUpgrade: websocket"
                   "\r\nSec-WebSocket-Version: 13"
                   "\r\nSec-WebSocket-Protocol: gym-http.external.v1"
                   "\r\nSec-WebSocket-Key: " +
                   key_ + "\r\nUser-Agent: gym_http_client_cpp\r\n";
        if (!server.token.empty()) request_ += "Authorization: Bearer " + server.token + "\r\n";
        request_ += "\r\n";
    }

    const std::string& request() const { return request_; }

    /// Parses bytes of the answer; returns whether it is complete.
    /// @throws ConnectionLost It is a refusal, or malformed.
    bool take(std::string_view bytes) {
        received_ += bytes;
        const auto end = received_.find("\r\n\r\n");
        if (end == std::string::npos) {
            if (received_.size() > max_answer) refuse("the answer to the handshake has no end");
            return false;
        }
        const std::string_view head = std::string_view(received_).substr(0, end + 2);
        const int status = status_of(head);
        body_ = std::string_view(received_).substr(end + 4);
        if (status != 101) {
            const std::string size = field(head, "content-length");
            const auto due = std::strtoull(size.c_str(), nullptr, 10);
            const bool whole = !size.empty() && body_.size() >= due;
            if (whole || received_.size() > max_answer) end_with(status);
            return false;
        }
        if (field(head, "sec-websocket-accept") != accept_of(key_))
            refuse("the handshake is answered by something else than a WebSocket");
        return true;
    }

    /// The bytes after the answer.
    std::string_view early() const { return body_; }

    /// Returns why there is no complete answer, after the connection has ended.
    [[noreturn]] void cut_off() const {
        if (!body_.empty()) end_with(status_of(received_));
        refuse("the connection was lost in the handshake");
    }

private:
    static constexpr std::size_t max_answer = std::size_t(64) << 10U;

    [[noreturn]] static void refuse(const std::string& words) { throw ConnectionLost(words); }

    static int status_of(std::string_view head) {
        int status = 0;
        if (head.substr(0, 7) == "HTTP/1." && head.size() > 12)
            std::from_chars(head.data() + 9, head.data() + 12, status);
        if (status == 0) refuse("what answers the handshake is no server of HTTP/1");
        return status;
    }

    [[noreturn]] void end_with(int status) const {
        std::string words = "status " + std::to_string(status);
        try {
            const Value problem = read_json(body_);
            if (const Value* message =
                    problem.kind() == Kind::dict ? problem.find("message") : nullptr)
                words = message->to<std::string>();
        } catch (const Error&) {
            // The status has to do.
        }
        refuse("the server refuses: " + words);
    }

    /// The value of a field, whose name is in lower case; empty if it is missing.
    static std::string field(std::string_view head, std::string_view name) {
        for (auto at = head.find("\r\n"); at + 2 < head.size(); at = head.find("\r\n", at + 2)) {
            const std::string_view line =
                head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
            const auto colon = line.find(':');
            if (colon != name.size()) continue;
            const auto alike = [](char lower, char each) {
                return lower == static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
            };
            const bool same = std::equal(name.begin(), name.end(), line.begin(), alike);
            const auto first = line.find_first_not_of(" \t", colon + 1);
            if (same && first != line.npos)
                return std::string(line.substr(first, line.find_last_not_of(" \t") + 1 - first));
        }
        return "";
    }

    std::string key_{};
    std::string request_{};
    std::string received_{};
    std::string_view body_{};
};

}  // namespace gym_http::detail

#endif
