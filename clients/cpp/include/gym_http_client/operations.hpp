/// @file
/// Operations on an instance, and the way over HTTP that all of them can go.
#ifndef GYM_HTTP_CLIENT_OPERATIONS_HPP
#define GYM_HTTP_CLIENT_OPERATIONS_HPP

#include <unordered_map>

#include "gym_http_client/binary.hpp"
#include "gym_http_client/http.hpp"

namespace gym_http::detail {

/// The operations of an instance, with their numbers on streams.
enum class Operation : std::uint8_t {
    reset = 1,
    step = 2,
    render = 3,
    action_sample = 7,
    observation_sample = 8,
    action_contains = 9,
    observation_contains = 10,
    generator = 13,
    set_generator = 14,
    attribute = 15,
    set_attribute = 16,
    call_attribute = 17,
    rollout = 18,
    act = 19,
    updates = 20,
    realtime = 21,
    set_realtime = 22,
    pause = 23,
    resume = 24,
    trace = 25
};

/// A request to an instance.
struct InstanceRequest {
    Operation operation{};
    std::string name{};       ///< Of an attribute.
    bool exact = false;       ///< Whether it is in the binary form, else plain JSON.
    std::string signature{};  ///< Of the binary form.
    std::string body{};       ///< JSON, or the leaves.
    std::string search{};     ///< Over HTTP, the body of a GET as a query.
};

/// A name as part of a path.
inline std::string quoted(const std::string& name) {
    static constexpr char hex[] = "0123456789ABCDEF";
    std::string path;
    for (const char each : name) {
        const auto byte = static_cast<unsigned char>(each);
        if (std::isalnum(byte) != 0 || each == '_' || each == '-' || each == '.') {
            path += each;
        } else {
            path += '%';
            path += hex[byte >> 4U];
            path += hex[byte & 15U];
        }
    }
    return path;
}

inline std::string path_of(const InstanceRequest& query) {
    switch (query.operation) {
        case Operation::reset: return "reset/";
        case Operation::step: return "step/";
        case Operation::render: return "render/";
        case Operation::action_sample: return "action_space/sample";
        case Operation::observation_sample: return "observation_space/sample";
        case Operation::action_contains: return "action_space/contains";
        case Operation::observation_contains: return "observation_space/contains";
        case Operation::generator:
        case Operation::set_generator: return "generator/";
        case Operation::attribute:
        case Operation::set_attribute: return "attributes/" + quoted(query.name) + "/";
        case Operation::call_attribute: return "attributes/" + quoted(query.name) + "/call/";
        case Operation::rollout: return "rollout/";
        case Operation::act: return "action/";
        case Operation::updates: return "updates/";
        case Operation::realtime:
        case Operation::set_realtime: return "realtime/";
        case Operation::pause: return "realtime/pause/";
        case Operation::resume: return "realtime/resume/";
        case Operation::trace: return "realtime/trace/";
    }
    return "";
}

inline bool is_get(Operation operation) {
    return operation == Operation::generator || operation == Operation::attribute ||
           operation == Operation::updates || operation == Operation::realtime ||
           operation == Operation::trace;
}

/// An `InstanceRequest` with plain JSON.
inline InstanceRequest plain_request(Operation operation, const Json& body, std::string name = "") {
    InstanceRequest query;
    query.operation = operation;
    query.name = std::move(name);
    write_json(body, query.body);
    return query;
}

/// An `InstanceRequest` whose body is a query over HTTP.
inline InstanceRequest query_request(Operation operation, const Json& body) {
    InstanceRequest query = plain_request(operation, body);
    for (const auto& member : body.items()) {
        const Json& value = member.value();
        query.search += (query.search.empty() ? '?' : '&') + member.key() + '=' +
                        quoted(value.is_string() ? value.get<std::string>() : write_json(value));
    }
    return query;
}

/// An `InstanceRequest` with an exact value.
inline InstanceRequest exact_request(Operation operation, const Value& body, std::string name = "") {
    InstanceRequest query;
    query.operation = operation;
    query.name = std::move(name);
    query.exact = true;
    Parts parts = take_apart(body);
    query.signature = std::move(parts.signature);
    query.body = std::move(parts.leaves);
    return query;
}

/// Compiled signatures of received values.
class SignatureCache {
public:
    std::shared_ptr<const Signature> get(std::string_view text) {
        const std::string key(text);
        const auto found = known_.find(key);
        if (found != known_.end()) return found->second;
        auto compiled = compile(text);
        if (text.size() > 4096) return compiled;
        if (known_.size() >= 64) known_.clear();
        known_.emplace(key, compiled);
        return compiled;
    }

private:
    std::unordered_map<std::string, std::shared_ptr<const Signature>> known_{};
};

/// Requests to one instance over HTTP.
class Rest {
public:
    Rest(Http& http, const std::string& instance_id)
        : http_(http), path_("/v1/envs/" + instance_id + "/") {}

    const std::string& path() const { return path_; }
    Http& http() { return http_; }

    /// Sends a request, under a key. @throws Error The answer is not a value.
    Value send_request(const InstanceRequest& query, const std::string& key, const Deadline& deadline) {
        Request request;
        request.method = is_get(query.operation) ? "GET" : "POST";
        request.path = path_ + path_of(query) + query.search;
        request.key = key;
        if (query.exact) {
            request.content_type = binary_type;
            append_u32(request.body, static_cast<std::uint32_t>(query.signature.size()));
            append_u32(request.body, 0);
            request.body += query.signature;
        }
        request.body += query.body;
        const Reply reply = http_.send(request, deadline);
        if (reply.status == 204) return Value();
        const std::string url = http_.url(request.path);
        if (reply.status != 200 || !reply.is(binary_type)) throw_refusal(reply, url);
        try {
            return read(reply);
        } catch (const ProtocolError& error) {
            throw error.at(Place{url, reply.status, ""});
        }
    }

private:
    Value read(const Reply& reply) {
        const span<const unsigned char> message(reply.body->data(), reply.body->size());
        const ValueHeader header = ValueHeader::read(message, 0);
        if (header.number != 0)
            throw ProtocolError("a value has bytes 4 to 8 that are not zero");
        const auto signature = signatures_.get(text_at(message, 8, header.size));
        return LeafReader(message, 8 + header.size, reply.body).whole(*signature);
    }

    Http& http_;
    std::string path_;
    SignatureCache signatures_{};
};

/// The transport of an instance's requests.
class Transport {
public:
    Transport() = default;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;
    virtual ~Transport() = default;

    /// Sends a request, and waits for the answer. @throws Error The answer is not a value.
    virtual Value send_request(const InstanceRequest& query) = 0;
};

/// Sends requests over HTTP.
class RestTransport : public Transport {
public:
    RestTransport(Http& http, const std::string& instance_id) : rest_(http, instance_id) {}

    Value send_request(const InstanceRequest& query) override {
        ++number_;
        return rest_.send_request(query, session_ + "-" + std::to_string(number_),
                         Deadline(rest_.http().server().timeout_s));
    }

private:
    Rest rest_;
    std::string session_ = random_name();
    std::uint64_t number_ = 0;
};

/// Makes the transport of an instance's requests.
using TransportMaker = std::unique_ptr<Transport> (*)(Http&, const std::string&);

inline std::unique_ptr<Transport> over_rest(Http& http, const std::string& instance_id) {
    return std::make_unique<RestTransport>(http, instance_id);
}

}  // namespace gym_http::detail

#endif
