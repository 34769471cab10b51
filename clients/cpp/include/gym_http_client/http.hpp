/// @file
/// Requests over a kept connection, sent again where that is right.
#ifndef GYM_HTTP_CLIENT_HTTP_HPP
#define GYM_HTTP_CLIENT_HTTP_HPP

#include <thread>

#include "gym_http_client/curl.hpp"
#include "gym_http_client/server.hpp"

namespace gym_http::detail {

/// A request.
struct Request {
    std::string method{};
    std::string path{};  ///< From the server's address on.
    std::string body{};
    std::string content_type = "application/json";
    std::string accept = binary_type;
    std::string key{};     ///< Idempotency-Key; empty for no key.
    bool creates = false;  ///< Whether it creates an instance.
    double wait_s = 0;     ///< Seconds that the server may wait in it, on top of all limits.
    std::map<std::string, std::string> headers{};  ///< Further ones.
    bool keeps_headers = false;                     ///< Whether the reply has its headers.

    bool has_body() const { return method == "POST" || method == "PUT"; }
};

/// Pauses between tries: the bound of each is twice that of the last.
class Pauses {
public:
    /// Seconds to wait before the next try.
    double next(double requested) {
        const double bound = std::min(0.05 * static_cast<double>(1ULL << std::min(count_, 30U)), 5.0);
        ++count_;
        // Not the program's own generator: that must not depend on the network.
        return requested + bound * (static_cast<double>(std::random_device()()) / 4294967296.0);
    }

private:
    unsigned count_ = 0;
};

/// The seconds that a server requires to wait; 0 for dates.
inline double seconds_of(const std::string& retry_after) {
    const bool digits = !retry_after.empty() && retry_after.size() < 9 &&
                        retry_after.find_first_not_of("0123456789") == std::string::npos;
    return digits ? std::stod(retry_after) : 0;
}

inline void pause(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// A connection to a server, which is kept open. For one thread at a time.
class Http {
public:
    explicit Http(Server server) : server_(std::move(server)), easy_(new_easy()) {
        curl_easy_setopt(easy_.get(), CURLOPT_HEADERFUNCTION, &Receiving::take_head);
        curl_easy_setopt(easy_.get(), CURLOPT_WRITEFUNCTION, &Receiving::take_body);
        curl_easy_setopt(easy_.get(), CURLOPT_ERRORBUFFER, words_->data());
        curl_easy_setopt(easy_.get(), CURLOPT_USERAGENT, "gym_http_client_cpp");
    }

    const Server& server() const { return server_; }
    std::string url(const std::string& path) const { return server_.url + path; }
    /// Whether an answer has named a node of a fleet.
    bool in_fleet() const { return in_fleet_; }

    /// Sends a request until there is a final answer.
    /// @throws TransportError No answer arrived in time.
    /// @throws ProtocolError The answer is too large.
    Reply send(const Request& request, const Deadline& deadline) {
        const HeaderList headers = headers_of(request);
        Pauses pauses;
        const Deadline first_contact(server_.first_contact_s);
        std::string last_failure;
        while (true) {
            Reply reply;
            const CURLcode code = attempt(request, headers.get(), deadline, reply);
            met_ = met_ || !is_absent(code);
            in_fleet_ = in_fleet_ || !reply.node.empty();
            if (code == CURLE_OK && !detail::is_repeated(reply, request.creates)) {
                warn_of(reply);
                return reply;
            }
            const double pause_s = pauses.next(seconds_of(reply.retry_after));
            double left = deadline.left();
            if (!met_) left = std::min(left, first_contact.left());
            if (!is_repeated(code) || pause_s >= left) {
                if (code == CURLE_OK) return reply;
                if (is_garbled(code))
                    throw ProtocolError("this is no answer of HTTP: " + words_of(code),
                                        Place{url(request.path), reply.status, ""});
                const bool late = code == CURLE_OPERATION_TIMEDOUT;
                throw TransportError(
                    "no answer: " + with_before(words_of(code), late ? last_failure : ""),
                    url(request.path));
            }
            if (code != CURLE_OPERATION_TIMEDOUT)
                last_failure = code == CURLE_OK ? words_of(reply) : words_of(code);
            pause(pause_s);
        }
    }

    /// Shows the warnings in a value, if they are its member `warnings`.
    void warn_of(const Value& answer) const {
        if (answer.kind() != Kind::dict) return;
        const Value* outcome = answer.find("warnings");
        if (outcome != nullptr) warn(*outcome);
    }

private:
    void warn_of(const Reply& reply) const {
        if (reply.warnings.empty()) return;
        try {
            warn(read_json(reply.warnings));
        } catch (const ProtocolError&) {
            // It is another server's header.
        }
    }

    void warn(const Value& outcome) const {
        if (outcome.kind() != Kind::list || !server_.on_warning) return;
        for (const Value& each : outcome.items()) {
            if (each.kind() != Kind::dict) continue;
            const auto text = [&](const char* name) {
                const Value* found = each.find(name);
                return found != nullptr && found->kind() == Kind::text ? found->text() : "";
            };
            server_.on_warning(Warning{text("category"), text("message")});
        }
    }

    static bool is_absent(CURLcode code) {
        return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
               code == CURLE_COULDNT_RESOLVE_PROXY;
    }

    /// Whether a failure of the network may pass.
    static bool is_repeated(CURLcode code) {
        return is_absent(code) || code == CURLE_OK || code == CURLE_GOT_NOTHING ||
               code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR ||
               code == CURLE_PARTIAL_FILE || code == CURLE_OPERATION_TIMEDOUT;
    }
    /// Whether there was an answer, but not one of HTTP/1.
    static bool is_garbled(CURLcode code) {
        return code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY ||
               code == CURLE_OUT_OF_MEMORY || code == CURLE_BAD_CONTENT_ENCODING;
    }

    HeaderList headers_of(const Request& request) const {
        HeaderList list;
        add_header(list, "Accept: " + request.accept);
        // libcurl would wait for 100 Continue before it sends a larger body.
        add_header(list, "Expect:");
        if (request.has_body()) add_header(list, "Content-Type: " + request.content_type);
        for (const auto& [name, value] : request.headers) add_header(list, name + ": " + value);
        if (!request.key.empty()) add_header(list, "Idempotency-Key: " + request.key);
        if (!server_.token.empty()) add_header(list, "Authorization: Bearer " + server_.token);
        return list;
    }

    CURLcode attempt(const Request& request, curl_slist* headers, const Deadline& deadline,
                     Reply& reply) {
        CURL* easy = easy_.get();
        Receiving receiving;
        receiving.max_body = server_.max_body;
        receiving.keeps_headers = request.keeps_headers;
        (*words_)[0] = '\0';
        const double limit =
            std::min(deadline.left(), server_.try_timeout_s + request.wait_s);
        if (limit <= 0) return CURLE_OPERATION_TIMEDOUT;
        curl_easy_setopt(easy, CURLOPT_URL, url(request.path).c_str());
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(easy, CURLOPT_HEADERDATA, &receiving);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, &receiving);
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, std::max(1L, static_cast<long>(limit * 1e3)));
        if (request.has_body()) {
            curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST,
                             request.method == "POST" ? nullptr : request.method.c_str());
            curl_easy_setopt(easy, CURLOPT_POST, 1L);
            curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
            curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                             static_cast<curl_off_t>(request.body.size()));
        } else {
            curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
            curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST,
                             request.method == "GET" ? nullptr : request.method.c_str());
        }
        CURLcode code = curl_easy_perform(easy);
        // libcurl accepts a truncated head as a whole one.
        if (code == CURLE_OK && !receiving.head_ended) code = CURLE_PARTIAL_FILE;
        long status = 0;
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        reply = std::move(receiving.reply);
        reply.status = static_cast<int>(status);
        if (receiving.failed) throw std::bad_alloc();
        if (receiving.too_large) {
            const std::string limit_text = std::to_string(server_.max_body);
            throw ProtocolError("the answer has a body of more than " + limit_text +
                                    " bytes, or a head of more than 65536",
                                Place{url(request.path), reply.status, ""});
        }
        // It must not outlive the request.
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, nullptr);
        return code;
    }

    static std::string words_of(const Reply& reply) {
        const std::string message = outcome_of(reply).message;
        return (message.empty() ? "" : message + " ") + "(status " +
               std::to_string(reply.status) + ")";
    }

    std::string words_of(CURLcode code) const {
        if (code == CURLE_OUT_OF_MEMORY) return "a header is too long";
        return (*words_)[0] != '\0' ? words_->data() : curl_easy_strerror(code);
    }

    Server server_;
    // Where libcurl writes stays where it is when this moves.
    std::unique_ptr<std::array<char, CURL_ERROR_SIZE>> words_ =
        std::make_unique<std::array<char, CURL_ERROR_SIZE>>();
    Easy easy_;
    bool met_ = false;
    bool in_fleet_ = false;
};

}  // namespace gym_http::detail

#endif
