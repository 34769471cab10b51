/// @file
/// Errors: what a call of the client throws.
///
///     Error
///      ├─ TransportError   there was no answer
///      ├─ ApiError         the server answered with a problem
///      ├─ ProtocolError    what came is not what the protocol says
///      └─ UsageError       a value was asked for, or given, as what it is not
#ifndef GYM_HTTP_CLIENT_ERROR_HPP
#define GYM_HTTP_CLIENT_ERROR_HPP

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace gym_http {

/// JSON whose objects keep their order.
using Json = nlohmann::ordered_json;

/// Where a request went and what came back, as far as it is known.
struct Place {
    std::string url{};   ///< Never holds the token.
    int status = 0;      ///< HTTP status; 0 when there was no answer.
    std::string code{};  ///< Short name of a problem, such as `unknown-instance`.
};

/// The base of all that is thrown; `what()` has the words, and where known the status,
/// the code and the URL.
class Error : public std::runtime_error {
public:
    /// The words alone: those of the server, where it had some.
    const std::string& message() const noexcept { return message_; }
    /// HTTP status of the answer; 0 when there was none.
    int status() const noexcept { return place_.status; }
    /// Short name of the problem, for programs; empty when there is none.
    const std::string& code() const noexcept { return place_.code; }
    /// Where the request went; empty when the error is not about a request.
    const std::string& url() const noexcept { return place_.url; }

protected:
    /// Makes an error of words and a place.
    explicit Error(std::string message, Place place = {})
        : std::runtime_error(told(message, place)),
          message_(std::move(message)),
          place_(std::move(place)) {}

private:
    static std::string told(const std::string& message, const Place& place) {
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
    /// Makes an error of what the network said, and of the URL that was asked.
    TransportError(std::string message, std::string url)
        : Error(std::move(message), Place{std::move(url), 0, ""}) {}
};

/// The server answered with a problem.
class ApiError : public Error {
public:
    /// Makes an error of what the server said.
    ApiError(std::string message, Place place, Json body)
        : Error(std::move(message), std::move(place)), body_(std::move(body)) {}

    /// The whole problem, with whatever else the server tells: `reason`, `error_type`…
    const Json& body() const noexcept { return body_; }
    /// The traceback of the environment's exception on the server; empty without one.
    std::string traceback() const {
        const auto found = body_.find("traceback");
        const bool told = found != body_.end() && found->is_string();
        return told ? found->get<std::string>() : std::string();
    }

private:
    Json body_;
};

/// What came is not what the protocol says: often a proxy, or another version.
class ProtocolError : public Error {
public:
    /// Makes an error of what is wrong with what came.
    explicit ProtocolError(std::string message, Place place = {})
        : Error(std::move(message), std::move(place)) {}

    /// The same error, told with the place where it happened.
    ProtocolError at(Place place) const {
        return ProtocolError(message(), std::move(place));
    }
};

/// A value was asked for, or given, as what it is not. Nothing was sent.
class UsageError : public Error {
public:
    /// Makes an error of what is wrong, and what would be right.
    explicit UsageError(std::string message) : Error(std::move(message)) {}
};

}  // namespace gym_http

#endif
