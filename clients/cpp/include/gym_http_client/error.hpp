/// @file
/// Errors: the exceptions of the client.
///
///     Error
///      ├─ TransportError   no answer arrived
///      ├─ ApiError         the server answered with a problem
///      ├─ ProtocolError    the answer does not follow the protocol
///      └─ UsageError       a value was read or passed as a wrong type
#ifndef GYM_HTTP_CLIENT_ERROR_HPP
#define GYM_HTTP_CLIENT_ERROR_HPP

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace gym_http {

/// JSON whose objects keep their order.
using Json = nlohmann::ordered_json;

/// The URL of a request and its answer, as far as they are known.
struct Place {
    std::string url{};   ///< Never holds the token.
    int status = 0;      ///< HTTP status; 0 when there was no answer.
    std::string code{};  ///< Short name of a problem, such as `unknown-instance`.
};

/// The base of all exceptions; `what()` has the message, and if known the status,
/// the code and the URL.
class Error : public std::runtime_error {
public:
    /// The message alone: the server's, if it has one.
    const std::string& message() const noexcept { return message_; }
    /// HTTP status of the answer; 0 without an answer.
    int status() const noexcept { return place_.status; }
    /// Short name of the problem, for programs; may be empty.
    const std::string& code() const noexcept { return place_.code; }
    /// Where the request went; empty when the error is not about a request.
    const std::string& url() const noexcept { return place_.url; }

protected:
    /// Makes an error from a message and a place.
    explicit Error(std::string message, Place place = {})
        : std::runtime_error(outcome(message, place)),
          message_(std::move(message)),
          place_(std::move(place)) {}

private:
    static std::string outcome(const std::string& message, const Place& place) {
        std::string known;
        for (const std::string& part :
             {place.status != 0 ? std::to_string(place.status) : std::string(),
              place.code, place.url}) {
            if (!part.empty()) known += (known.empty() ? " (" : ", ") + part;
        }
        return known.empty() ? message : message + known + ")";
    }

    std::string message_;
    Place place_;
};

/// There was no answer, so it is unknown whether the server did its work.
class TransportError : public Error {
public:
    /// Makes an error from a network failure and the URL.
    TransportError(std::string message, std::string url)
        : Error(std::move(message), Place{std::move(url), 0, ""}) {}
};

/// The server answered with a problem.
class ApiError : public Error {
public:
    /// Makes an error from the server's answer.
    ApiError(std::string message, Place place, Json body)
        : Error(std::move(message), std::move(place)), body_(std::move(body)) {}

    /// The whole problem, with all other members: `reason`, `error_type`…
    const Json& body() const noexcept { return body_; }
    /// The traceback of the environment's exception on the server; empty without one.
    std::string traceback() const {
        const auto found = body_.find("traceback");
        const bool outcome = found != body_.end() && found->is_string();
        return outcome ? found->get<std::string>() : std::string();
    }

private:
    Json body_;
};

/// The answer does not follow the protocol: often of a proxy, or another version.
class ProtocolError : public Error {
public:
    /// Makes an error from a reason.
    explicit ProtocolError(std::string message, Place place = {})
        : Error(std::move(message), std::move(place)) {}

    /// The same error with the place of the failure.
    ProtocolError at(Place place) const {
        return ProtocolError(message(), std::move(place));
    }
};

/// A value was read or passed as a wrong type. Nothing was sent.
class UsageError : public Error {
public:
    /// Makes an error from the mistake and the correct use.
    explicit UsageError(std::string message) : Error(std::move(message)) {}
};

}  // namespace gym_http

#endif
