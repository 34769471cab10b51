/// @file
/// Answers of the server that are errors.
#ifndef GYM_HTTP_CLIENT_ANSWERS_HPP
#define GYM_HTTP_CLIENT_ANSWERS_HPP

#include <map>

#include "gym_http_client/json_tree.hpp"

namespace gym_http::detail {

constexpr const char* binary_type = "application/vnd.gym-http.binary";

/// The answer to a request.
struct Reply {
    int status = 0;
    std::string content_type{};
    std::string location{};
    std::string retry_after{};
    std::string warnings{};
    std::string node{};  ///< In a fleet, of the instance that was made or described.
    std::map<std::string, std::string> headers{};  ///< Only if the request asks for them.
    std::shared_ptr<Bytes> body = std::make_shared<Bytes>();

    std::string_view text() const {
        return {reinterpret_cast<const char*>(body->data()), body->size()};
    }
    /// Whether the body has a media type, with any parameters.
    bool is(std::string_view type) const {
        return std::string_view(content_type).substr(0, content_type.find(';')) == type;
    }
};

/// Whether a status means that the request was not executed, and may succeed later.
inline bool is_repeated(int status) { return status == 408 || status == 429 || status == 503; }

/// The message and code of a problem; nothing for other answers.
struct ProblemText {
    std::string message{};
    std::string code{};
};

inline ProblemText outcome_of(const Reply& reply) {
    ProblemText outcome;
    try {
        const Value problem = read_json(reply.text());
        if (problem.kind() != Kind::dict) return outcome;
        const auto text = [&](const char* name) {
            const Value* found = problem.find(name);
            return found != nullptr && found->kind() == Kind::text ? found->text() : "";
        };
        outcome.message = text("message");
        outcome.code = text("code");
    } catch (const ProtocolError&) {
        // A proxy's page.
    }
    return outcome;
}

/// Whether the request was not executed and may succeed later, by its answer. That no
/// external environment is connected is final for a create: the server has
/// already waited for `wait_s`.
inline bool is_repeated(const Reply& reply, bool creates) {
    return is_repeated(reply.status) && !(creates && outcome_of(reply).code == "external-away");
}

/// The message of the last failure, followed by an earlier, different one.
inline std::string with_before(const std::string& last, const std::string& last_failure) {
    return last_failure.empty() || last_failure == last ? last : last + "; before that: " + last_failure;
}

/// Throws the error of a problem, if the body is one.
inline void throw_problem(const Value& problem, int status, const std::string& url) {
    if (problem.kind() != Kind::dict) return;
    const Value* message = problem.find("message");
    if (message == nullptr || message->kind() != Kind::text) return;
    const Value* code = problem.find("code");
    const bool coded = code != nullptr && code->kind() == Kind::text;
    throw ApiError(message->text(), Place{url, status, coded ? code->text() : ""},
                   to_json(problem));
}

/// Throws the error of an unexpected answer.
/// @throws ApiError The answer is a problem.
/// @throws ProtocolError The answer is not from such a server.
[[noreturn]] inline void throw_refusal(const Reply& reply, const std::string& url) {
    std::string why = "has no message";
    if (reply.status >= 400) {
        try {
            throw_problem(read_json(reply.text()), reply.status, url);
        } catch (const ProtocolError&) {
            why = "is no JSON";
        }
    } else if (reply.status >= 300) {
        why = "leads to " + (reply.location.empty() ? "nowhere" : reply.location);
    } else {
        why = "is of the type \"" + reply.content_type + "\", which was not requested";
    }
    throw ProtocolError("the answer " + why + ": is this a gym_http_server of API v1?",
                        Place{url, reply.status, ""});
}

}  // namespace gym_http::detail

#endif
