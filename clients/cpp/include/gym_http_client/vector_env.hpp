/// @file
/// Many environments that step as one.
#ifndef GYM_HTTP_CLIENT_VECTOR_ENV_HPP
#define GYM_HTTP_CLIENT_VECTOR_ENV_HPP

#include "gym_http_client/env.hpp"

namespace gym_http {

/// The options of a new vector. The server has defaults for the others.
struct VectorOptions : EnvOptions {
    std::optional<std::string> vectorization_mode{};  ///< `sync`, `async`…
    std::optional<std::string> autoreset_mode{};  ///< `next_step`, `same_step`, `disabled`.
    Json vector_kwargs = Json();                  ///< Arguments of Gymnasium's vector.
    Json hosts = Json();  ///< Processes over which it is spread; `auto`: the server's choice.
};

/// The results of a vector's step: one for each environment, in order.
struct VectorStep {
    Value observations{};  ///< Keeps the receive buffer alive.
    Value rewards{};       ///< An array, mostly of float64.
    Value terminated{};    ///< An array of bool.
    Value truncated{};     ///< An array of bool.
    Value info{};          ///< A dict of arrays.

    /// Whether the episode of an environment is over.
    bool done(std::size_t env) const {
        return terminated.as<bool>()[env] || truncated.as<bool>()[env];
    }
};

/// Many environments that step as one. Made by the constructor, ended by the destructor.
class VectorEnv : public Instance {
public:
    /// Makes `num_envs` environments.
    /// @throws TransportError There is no answer.
    /// @throws ApiError The server refuses.
    /// @throws ProtocolError The answer is not from such a server.
    VectorEnv(Server server, const std::string& env_id, std::size_t num_envs,
              const VectorOptions& options = {})
        : VectorEnv(std::move(server), env_id, num_envs, options, detail::over_rest) {}

    /// Uses an existing vector. @see Env::attach
    /// @throws UsageError It is a single environment, or the ID is malformed.
    static VectorEnv attach(Server server, const std::string& instance_id) {
        return VectorEnv(detail::Attached{std::move(server), instance_id}, detail::over_rest);
    }

    /// How many environments there are.
    std::size_t num_envs() const noexcept { return num_envs_; }

    /// Begins an episode in each environment, or in those of a mask.
    /// @param seed An integer, or a list with one for each.
    /// @param options Options of the environments, `reset_mask` among them.
    Reset reset(const Json& seed = Json(), const Json& options = Json()) {
        Json body = Json::object();
        if (!seed.is_null()) body["seed"] = seed;
        if (!options.is_null()) body["options"] = options;
        const Value answer = send_request(detail::plain_request(detail::Operation::reset, body));
        return {member(answer, "observation"), member(answer, "info")};
    }

    /// Makes a step in each environment.
    /// @param actions A `std::vector` with one for each, or a `Value` that is sent as is.
    template <class Actions>
    VectorStep step(const Actions& actions) {
        if constexpr (std::is_same_v<Actions, Value>) {
            return stepped(send_request(detail::exact_request(detail::Operation::step,
                                                 Value::dict({{"action", actions}}))));
        } else {
            return stepped(send_request(detail::plain_request(detail::Operation::step,
                                                 Json{{"action", Json(actions)}})));
        }
    }

    /// Makes a step with actions in braces.
    VectorStep step(const Json& actions) { return step<Json>(actions); }

protected:
    /// @cond
    VectorEnv(Server server, const std::string& env_id, std::size_t num_envs,
              const VectorOptions& options, detail::TransportMaker maker)
        : Instance(std::move(server), request_of(env_id, num_envs, options), maker),
          num_envs_(num_envs) {}
    VectorEnv(detail::Attached attached, detail::TransportMaker maker)
        : Instance(std::move(attached), true, maker), num_envs_(attached_envs()) {}
    /// @endcond

private:
    static Json request_of(const std::string& env_id, std::size_t num_envs,
                           const VectorOptions& options) {
        Json request = detail::request_of(env_id, options);
        request["num_envs"] = num_envs;
        if (options.vectorization_mode)
            request["vectorization_mode"] = *options.vectorization_mode;
        if (options.autoreset_mode) request["autoreset_mode"] = *options.autoreset_mode;
        if (!options.hosts.is_null()) request["hosts"] = options.hosts;
        request["vector_kwargs"] = options.vector_kwargs;
        return request;
    }

    VectorStep stepped(const Value& answer) const {
        return {member(answer, "observation"), member(answer, "reward"),
                member(answer, "terminated"), member(answer, "truncated"),
                member(answer, "info")};
    }

    std::size_t num_envs_;
};

}  // namespace gym_http

#endif
