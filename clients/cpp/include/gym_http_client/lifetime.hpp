/// @file
/// The life of instances on their server: made, listed, looked for, ended.
#ifndef GYM_HTTP_CLIENT_LIFETIME_HPP
#define GYM_HTTP_CLIENT_LIFETIME_HPP

#include <map>

#include "gym_http_client/operations.hpp"

namespace gym_http {

namespace detail {

/// An existing instance.
struct Attached {
    Server server;
    std::string id;
};

inline bool is_instance_id(const std::string& text) {
    return !text.empty() && text.size() <= 64 && quoted(text) == text;
}

inline std::string instance_path(const std::string& id) { return "/v1/envs/" + id + "/"; }

/// Sends a request whose answer is an object. @throws Error It failed.
inline Json json_of(Http& http, const Request& request) {
    const Reply reply = http.send(request, Deadline(http.server().timeout_s + request.wait_s));
    const std::string where = http.url(request.path);
    if (reply.status != 200 || !reply.is("application/json")) throw_refusal(reply, where);
    try {
        Json json = to_json(read_json(reply.text()));
        if (!json.is_object()) throw ProtocolError("the answer is no object");
        return json;
    } catch (const ProtocolError& error) {
        throw error.at(Place{where, reply.status, ""});
    }
}

inline Json get_json(Http& http, const std::string& path) {
    Request request;
    request.method = "GET";
    request.path = path;
    request.accept = "application/json";
    return json_of(http, request);
}

/// Makes an instance. @returns Its ID.
inline std::string create_instance(Http& http, const Json& body) {
    Request request;
    request.method = "POST";
    request.path = "/v1/envs/";
    request.accept = "application/json";
    request.key = random_name();
    request.body = write_json(body);
    request.creates = true;
    const auto wait = body.find("wait_s");
    if (wait != body.end() && wait->is_number() && *wait > 0)
        request.wait_s = std::min(wait->get<double>(), 1e6);
    const Json answer = json_of(http, request);
    const auto id = answer.find("instance_id");
    const std::string text =
        id != answer.end() && id->is_string() ? id->get<std::string>() : "";
    if (!is_instance_id(text))
        throw ProtocolError("the answer has no \"instance_id\"",
                            Place{http.url(request.path), 200, ""});
    return text;
}

/// Looks for an instance. @returns How many environments it has; 0 if it is no vector.
inline std::size_t find_instance(Http& http, const std::string& id) {
    if (!is_instance_id(id))
        throw UsageError("\"" + id + "\" is no ID of an instance: \"3c657dbc\" could be");
    const Json outcome = get_json(http, instance_path(id));
    const Place place{http.url(instance_path(id)), 200, ""};
    if (outcome.value("instance_id", Json()) != id)
        throw ProtocolError("the answer does not describe the instance \"" + id + "\"", place);
    const auto count = outcome.find("num_envs");
    if (count == outcome.end()) return 0;
    if (!count->is_number_integer() || *count < 1)
        throw ProtocolError("\"num_envs\" is no integer from 1 on", place);
    return count->get<std::size_t>();
}

/// Ends an instance; that it has ended already is no error.
inline void end_instance(Http& http, const std::string& id, double seconds) {
    Request request;
    request.method = "DELETE";
    request.path = instance_path(id);
    request.accept = "application/json";
    request.key = random_name();
    const Reply reply = http.send(request, Deadline(seconds));
    if (reply.status == 204) return;
    try {
        throw_refusal(reply, http.url(request.path));
    } catch (const ApiError& error) {
        // An ended instance needs no close.
        if (error.code() != "unknown-instance" && error.code() != "instance-ended" &&
            error.code() != "server-restarted") {
            throw;
        }
    }
}

}  // namespace detail

/// The instances of a server: the name of each one's environment, by its ID.
/// @throws Error The request failed.
inline std::map<std::string, std::string> list(Server server) {
    detail::Http http(std::move(server));
    const Json answer = detail::get_json(http, "/v1/envs/");
    const auto all = answer.find("all_envs");
    std::map<std::string, std::string> names;
    if (all != answer.end() && all->is_object()) {
        for (const auto& [id, name] : all->items())
            if (name.is_string()) names.emplace(id, name.get<std::string>());
        if (names.size() == all->size()) return names;
    }
    throw ProtocolError("the answer has no \"all_envs\" with names of environments",
                        Place{http.url("/v1/envs/"), 200, ""});
}

/// The instances of a server with their figures, as `instances`, and the last that ended, as
/// `ended`: lists of objects, whose members docs/api.md describes.
/// @param server The server.
/// @param search Only those with this text in a name; "" for all.
/// @param state Only those in this state, as "idle" or "ended"; "" for all.
/// @throws Error The request failed.
inline Json instances(Server server, const std::string& search = "",
                      const std::string& state = "") {
    detail::Http http(std::move(server));
    std::string path = "/v1/instances/";
    if (!search.empty()) path += "?search=" + detail::quoted(search);
    if (!state.empty()) path += (search.empty() ? "?state=" : "&state=") + detail::quoted(state);
    Json answer = detail::get_json(http, path);
    for (const char* name : {"instances", "ended"}) {
        const auto listed = answer.find(name);
        if (listed == answer.end() || !listed->is_array())
            throw ProtocolError(std::string("the answer has no list \"") + name + "\"",
                                Place{http.url("/v1/instances/"), 200, ""});
    }
    return answer;
}

}  // namespace gym_http

#endif
