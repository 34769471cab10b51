/// @file
/// Any request of the API, as for training runs.
#ifndef GYM_HTTP_CLIENT_CLIENT_HPP
#define GYM_HTTP_CLIENT_CLIENT_HPP

#include "gym_http_client/http.hpp"

namespace gym_http {

/// The body and the headers of a request.
struct RequestOptions {
    std::string body{};  ///< Bytes, sent as they are.
    std::string content_type = "application/octet-stream";  ///< Media type of the body.
    std::map<std::string, std::string> headers{};           ///< Values by name.
};

/// The options of a request whose body is JSON.
inline RequestOptions json_body(const Json& value) {
    return RequestOptions{value.dump(), "application/json", {}};
}

/// The answer to a request.
struct Answer {
    int status = 0;                                ///< Status of HTTP.
    std::map<std::string, std::string> headers{};  ///< By names in lower case.
    std::string body{};                            ///< Bytes, as they were received.

    /// A header; empty if the answer does not have it.
    std::string header(const std::string& name) const {
        const auto found = headers.find(name);
        return found == headers.end() ? "" : found->second;
    }
    /// The body, as JSON.
    /// @throws ProtocolError It is no JSON.
    Json json() const { return to_json(read_json(body)); }
};

/// A server, for requests that no environment makes. For one thread at a time.
class Client {
public:
    /// A client of a server; an address alone becomes one.
    explicit Client(Server server) : http_(std::move(server)) {}

    /// Sends a request; it is sent again like those of environments.
    /// @param method `GET`, `POST`, `PUT` or `DELETE`.
    /// @param path As `/v1/runs/`, with its query.
    /// @param options Body and headers.
    /// @throws ApiError The server refuses.
    /// @throws TransportError No answer arrived in time.
    /// @throws ProtocolError The answer is not from such a server.
    Answer request(const std::string& method, const std::string& path,
                   const RequestOptions& options = {}) {
        detail::Request request;
        request.method = method;
        request.path = path;
        request.body = options.body;
        request.content_type = options.content_type;
        request.headers = options.headers;
        const auto accept = request.headers.find("Accept");
        request.accept = accept == request.headers.end() ? "*/*" : accept->second;
        if (accept != request.headers.end()) request.headers.erase(accept);
        request.keeps_headers = true;
        if (method == "POST") request.key = detail::random_name();
        detail::Reply reply = http_.send(request, detail::Deadline(http_.server().timeout_s));
        const bool succeeded = (reply.status >= 200 && reply.status < 300) || reply.status == 304;
        if (!succeeded) detail::throw_refusal(reply, http_.url(path));
        return Answer{reply.status, std::move(reply.headers), std::string(reply.text())};
    }

private:
    detail::Http http_;
};

}  // namespace gym_http

#endif
