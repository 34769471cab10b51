/// @file
/// An environment of this program, as its author describes it.
#ifndef GYM_HTTP_CLIENT_SERVING_PROVIDED_ENV_HPP
#define GYM_HTTP_CLIENT_SERVING_PROVIDED_ENV_HPP

#include "gym_http_client/env.hpp"
#include "gym_http_client/serving/reply.hpp"

namespace gym_http {

/// The arguments of a new instance.
struct InitAsked {
    Value kwargs{};             ///< A dict, maybe an empty one.
    std::string render_mode{};  ///< One of the `render_modes`, or empty.
};

/// The arguments of a reset.
struct ResetAsked {
    std::optional<std::uint64_t> seed{};  ///< Only with the capability `seed`.
    Value options{};  ///< A dict, possibly empty; with the capability `options`.
};

/// The spaces of an instance, if they differ from those of the environment.
struct Spaces {
    std::optional<Space> observation{};  ///< Of observations.
    std::optional<Space> action{};       ///< Of actions.
};

/// The result of a step, as `Step`, or with several rewards.
struct StepGiven : Step {
    std::vector<double> rewards{};  ///< One for each of the `reward_channels`.

    /// Nothing yet.
    StepGiven() = default;
    /// A step with one reward.
    StepGiven(Step step) : Step(std::move(step)) {}
};

/// The result of `close`.
struct Nothing {};

/// How messages are written.
enum class Dialect {
    json,   ///< As text, which a person can read.
    binary  ///< As frames, which is faster for pictures and large arrays.
};

/// An environment of this program, which is provided to a server.
///
/// Values are elements of their space; numbers and lists are cast to it. An array with the
/// right number of elements may have any shape. The agent receives an exception of a handler
/// as an error: `EnvError` has a code.
struct ProvidedEnv {
    std::string name;         ///< A letter or digit, then up to 63 of `A-Za-z0-9_.-`.
    Space observation_space;  ///< Of all instances, unless `init` returns others.
    Space action_space;       ///< Of all instances, unless `init` returns others.

    std::vector<std::string> capabilities{};     ///< Some of `seed`, `options` and `pause`.
    std::vector<std::string> render_modes{};     ///< The modes of `render`.
    std::vector<std::string> reward_channels{};  ///< Names of the parts of a reward.
    Json metadata = Json::object();              ///< As in Gymnasium's environments.
    double hz = 0;                               ///< Its rate, if its time does not wait for steps.
    bool replace = false;                        ///< Whether it returns to its instance after a restart.
    Dialect dialect = Dialect::json;             ///< The form of messages.

    Handler<Spaces, InitAsked> init{};    ///< Makes an instance; without it, kwargs are refused.
    Handler<Reset, ResetAsked> reset{};   ///< Begins an episode.
    Handler<Value> observe{};             ///< Observes, if there is no `reset`.
    Handler<StepGiven, Value> step{};     ///< Makes a step. An action has the type that `Env` returns.
    Handler<Value> render{};              ///< Returns a frame: an array, or text.
    Handler<Nothing> close{};             ///< The agent closed the instance.

    std::function<void()> on_agent{};                 ///< An agent has arrived.
    std::function<void()> on_agent_gone{};            ///< It left.
    std::function<void(const std::string&)> log{};  ///< Called with a log line; by default `std::clog`.

    /// Names an environment with its spaces; the rest is set as members.
    ProvidedEnv(std::string name_of_env, Space of_observations, Space of_actions)
        : name(std::move(name_of_env)),
          observation_space(std::move(of_observations)),
          action_space(std::move(of_actions)) {}
};

}  // namespace gym_http

#endif
