/// @file
/// An environment on a server.
#ifndef GYM_HTTP_CLIENT_ENV_HPP
#define GYM_HTTP_CLIENT_ENV_HPP

#include "gym_http_client/instance.hpp"
#include "gym_http_client/typed_json.hpp"

namespace gym_http {

/// The options of a new environment. The server has defaults for the others.
struct EnvOptions {
    Json kwargs = Json::object();                 ///< The environment's own arguments.
    Value::Members exact_kwargs{};  ///< Further ones that JSON does not have, as arrays.
    std::optional<std::uint64_t> seed{};          ///< Of the first reset, if that has no seed.
    std::optional<std::string> render_mode{};     ///< Such as `rgb_array`; rendering needs one.
    std::optional<std::int64_t> max_episode_steps{};  ///< -1 for no limit.
    std::optional<bool> disable_env_checker{};    ///< As for `gymnasium.make`.
    Json wrappers = Json();                       ///< A list of names, or of objects.
    std::optional<std::string> api{};  ///< Of several agents: `parallel` or `aec`.
    std::optional<double> wait_s{};  ///< Seconds that the server waits for an external environment.
    std::optional<std::string> label{};  ///< Up to 64 characters, shown in lists.
    Json realtime = Json();  ///< A clock that does not wait; see `RealTimeEnv`.
};

/// The result of a reset.
struct Reset {
    Value observation{};  ///< Keeps its receive buffer alive.
    Value info{};         ///< A dict.
    Value realtime{};     ///< Of a `RealTimeEnv` a dict, otherwise None.
};

/// The result of a step.
struct Step {
    Value observation{};      ///< Keeps its receive buffer alive.
    double reward = 0;        ///< Of this step.
    bool terminated = false;  ///< Whether the episode ended.
    bool truncated = false;   ///< Whether it was truncated.
    Value info{};             ///< A dict.
    Value realtime{};         ///< Of a `RealTimeEnv` a dict, otherwise None.
    Value rewards{};          ///< Of each channel, NaN without one; None without channels.
    Value agents{};  ///< Of several agents the answer, with dicts by agent; otherwise None.

    /// Whether the episode is over; of several agents, whether none is left.
    bool done() const { return terminated || truncated; }
};

/// The results of several steps, in columns: an array if all are of one kind, otherwise a list.
struct Steps {
    Value observations{};   ///< One for each step.
    Value rewards{};        ///< One for each step.
    Value terminated{};     ///< One for each step.
    Value truncated{};      ///< One for each step.
    Value infos{};          ///< One for each step.
    std::size_t count = 0;  ///< Number of steps taken.
    std::string stopped{};  ///< Why it stopped: `episode`, `time`… Empty if all steps were taken.
};

namespace detail {

inline Json request_of(const std::string& env_id, const EnvOptions& options) {
    Json request{{"env_id", env_id}, {"kwargs", options.kwargs}};
    if (!options.exact_kwargs.empty()) {
        request["typed"] = true;
        request["kwargs"].update(
            Json::parse(write_typed_json(Value::dict(options.exact_kwargs))));
    }
    if (options.seed) request["seed"] = *options.seed;
    if (options.render_mode) request["render_mode"] = *options.render_mode;
    if (options.max_episode_steps)
        request["max_episode_steps"] = *options.max_episode_steps;
    if (options.disable_env_checker)
        request["disable_env_checker"] = *options.disable_env_checker;
    request["wrappers"] = options.wrappers;
    if (options.api) request["api"] = *options.api;
    if (options.wait_s) request["wait_s"] = *options.wait_s;
    if (options.label) request["label"] = *options.label;
    if (!options.realtime.is_null()) request["realtime"] = options.realtime;
    return request;
}

/// A member of an answer; None if it is absent.
inline Value optional_member(const Value& answer, const char* name) {
    const Value* found = answer.kind() == Kind::dict ? answer.find(name) : nullptr;
    return found == nullptr ? Value() : *found;
}

/// The step of several agents in an answer. @throws UsageError It is not one.
inline Step agents_step_of(const Value& answer) {
    // In an answer without `agents`, these are the ones that have flags.
    const Value* left = answer.find("agents");
    const bool over = (left == nullptr ? answer["terminated"] : *left).size() == 0;
    Step step;
    step.observation = answer["observation"];
    step.info = answer["info"];
    for (const auto& [agent, flag] : answer["terminated"].members())
        step.terminated = step.terminated || (over && flag.template to<bool>());
    step.truncated = over && !step.terminated;
    step.agents = answer;
    return step;
}

/// The step in an answer. @throws ProtocolError It is not one.
inline Step step_of(const Value& answer, const std::string& url) {
    try {
        if (answer["terminated"].kind() == Kind::dict) return agents_step_of(answer);
        return {answer["observation"],
                answer["reward"].to<double>(),
                answer["terminated"].to<bool>(),
                answer["truncated"].to<bool>(),
                answer["info"],
                optional_member(answer, "realtime"),
                optional_member(answer, "rewards")};
    } catch (const UsageError& error) {
        throw ProtocolError("the answer is not that of a step: " + error.message(),
                            Place{url, 200, ""});
    }
}

}  // namespace detail

/// One environment. Made by its constructor, ended by its destructor.
class Env : public Instance {
public:
    /// Makes an environment.
    /// @param server Its address, or a `Server`.
    /// @param env_id Gymnasium's name of it, as `CartPole-v1`.
    /// @param options How it is made.
    /// @throws TransportError There is no answer.
    /// @throws ApiError The server refuses, for example an unknown environment.
    /// @throws ProtocolError The answer is not from such a server.
    Env(Server server, const std::string& env_id, const EnvOptions& options = {})
        : Env(std::move(server), env_id, options, detail::over_rest) {}

    /// Uses an existing environment, and closes it as if it were made here;
    /// `release()` prevents that.
    /// @throws UsageError It is a vector, or the ID is malformed.
    /// @throws ApiError The instance is unknown.
    /// @throws TransportError There is no answer.
    static Env attach(Server server, const std::string& instance_id) {
        return Env(detail::Attached{std::move(server), instance_id}, detail::over_rest);
    }

    /// Begins an episode.
    /// @param seed For the environment's generator; without one it is not seeded.
    /// @param options Options of the environment.
    Reset reset(std::optional<std::uint64_t> seed = {}, const Json& options = Json()) {
        Json body = seeded(seed);
        if (!options.is_null()) body["options"] = options;
        const Value answer = send_request(detail::plain_request(detail::Operation::reset, body));
        return {member(answer, "observation"), member(answer, "info"),
                detail::optional_member(answer, "realtime")};
    }

    /// Makes a step.
    /// @param action A number, a `std::vector` or another value of JSON, which
    ///     the server casts to the action space; or a `Value`, which reaches the
    ///     environment unchanged.
    template <class Action>
    Step step(const Action& action) {
        if constexpr (std::is_same_v<Action, Value>) {
            return stepped(send_request(detail::exact_request(detail::Operation::step,
                                                 Value::dict({{"action", action}}))));
        } else if constexpr (std::is_integral_v<Action> && !std::is_same_v<Action, bool>) {
            detail::InstanceRequest requested;
            requested.operation = detail::Operation::step;
            requested.body = "{\"action\":" + std::to_string(action) + "}";
            return stepped(send_request(requested));
        } else {
            return step_json(Json(action));
        }
    }

    /// Makes a step with an action in braces.
    Step step(const Json& action) { return step_json(action); }

    /// Makes one step after the other; stops when the episode ends.
    /// @param actions A list of JSON or of values, or an array with one in each row.
    template <class Actions>
    Steps steps(const Actions& actions) {
        if constexpr (std::is_same_v<Actions, Value>) {
            return many(send_request(detail::exact_request(detail::Operation::step,
                                              Value::dict({{"actions", actions}}))));
        } else {
            return many(send_request(detail::plain_request(detail::Operation::step,
                                              Json{{"actions", Json(actions)}})));
        }
    }

    /// Plays whole episodes on the server.
    /// @param request `episodes`, `policy` or `actions`, `seed`, `options`, `max_steps`.
    /// @returns A dict of `episodes`, `steps` and `stopped`.
    Value rollout(const Json& request = Json::object()) {
        return send_request(detail::plain_request(detail::Operation::rollout, request));
    }

protected:
    /// @cond
    Env(Server server, const std::string& env_id, const EnvOptions& options,
        detail::TransportMaker maker)
        : Instance(std::move(server), detail::request_of(env_id, options), maker) {}
    Env(detail::Attached attached, detail::TransportMaker maker)
        : Instance(std::move(attached), false, maker) {}
    /// @endcond

private:
    Step step_json(const Json& action) {
        return stepped(
            send_request(detail::plain_request(detail::Operation::step, Json{{"action", action}})));
    }

    Step stepped(const Value& answer) const {
        for (const char* name : {"observation", "reward", "terminated", "truncated", "info"})
            member(answer, name);
        return detail::step_of(answer, url("step/"));
    }

    Steps many(const Value& answer) const {
        const Value stopped = member(answer, "stopped");
        return {member(answer, "observations"),
                member(answer, "rewards"),
                member(answer, "terminated"),
                member(answer, "truncated"),
                member(answer, "infos"),
                member(answer, "steps").to<std::size_t>(),
                stopped.is_none() ? "" : stopped.to<std::string>()};
    }
};

}  // namespace gym_http

#endif
