/// @file
/// An environment of this program, as its author describes it.
#ifndef GYM_HTTP_CLIENT_SERVING_LENT_HPP
#define GYM_HTTP_CLIENT_SERVING_LENT_HPP

#include "gym_http_client/env.hpp"
#include "gym_http_client/serving/reply.hpp"

namespace gym_http {

/// With what an instance is made.
struct InitAsked {
    Value kwargs{};             ///< A dict, maybe an empty one.
    std::string render_mode{};  ///< One of the `render_modes`, or empty.
};

/// With what an episode begins.
struct ResetAsked {
    std::optional<std::uint64_t> seed{};  ///< Asked of who has the capability `seed`.
    Value options{};  ///< A dict, maybe an empty one; with the capability `options`.
};

/// The spaces of an instance, where they are others than those that were told before.
struct Spaces {
    std::optional<Space> observation{};  ///< Of observations.
    std::optional<Space> action{};       ///< Of actions.
};

/// What a step gives, as `Step`, or with several rewards.
struct StepGiven : Step {
    std::vector<double> rewards{};  ///< One for each of the `reward_channels`.

    /// Nothing yet.
    StepGiven() = default;
    /// A step with one reward.
    StepGiven(Step step) : Step(std::move(step)) {}
};

/// What `close` gives.
struct Nothing {};

/// How messages are written.
enum class Dialect {
    json,   ///< As text, which a person can read.
    binary  ///< As frames, which is faster for pictures and large arrays.
};

/// An environment of this program, which is to be lent to a server.
///
/// Values are elements of their space; numbers and lists are cast to it, and of an array
/// with as many elements as the space's the shape does not count. A handler that throws
/// tells the agent of it: `EnvError` with a code.
struct Lent {
    std::string name;         ///< A letter or digit, then up to 63 of `A-Za-z0-9_.-`.
    Space observation_space;  ///< Of all instances, unless `init` says otherwise.
    Space action_space;       ///< Of all instances, unless `init` says otherwise.

    std::vector<std::string> capabilities{};     ///< Some of `seed`, `options` and `pause`.
    std::vector<std::string> render_modes{};     ///< With what `render` can be asked for.
    std::vector<std::string> reward_channels{};  ///< Of what a reward consists.
    Json metadata = Json::object();              ///< As Gymnasium's environments have it.
    double hz = 0;                               ///< Its rate, if it waits for nobody.
    Dialect dialect = Dialect::json;             ///< How messages are written.

    Handler<Spaces, InitAsked> init{};    ///< Makes an instance; without, it takes no kwargs.
    Handler<Reset, ResetAsked> reset{};   ///< Begins an episode.
    Handler<Value> observe{};             ///< Observes, where there is no `reset`.
    Handler<StepGiven, Value> step{};     ///< Acts. An action is as an `Env` gives it.
    Handler<Value> render{};              ///< Gives a frame: an array, or text.
    Handler<Nothing> close{};             ///< The agent is gone.

    std::function<void()> on_agent{};                 ///< An agent has come.
    std::function<void()> on_agent_gone{};            ///< It went.
    std::function<void(const std::string&)> log{};  ///< Takes a line; else `std::clog` does.

    /// Names an environment, and says what it is; the rest is set as members.
    Lent(std::string name_of_env, Space of_observations, Space of_actions)
        : name(std::move(name_of_env)),
          observation_space(std::move(of_observations)),
          action_space(std::move(of_actions)) {}
};

}  // namespace gym_http

#endif
