/// @file
/// Calls an author's handlers for the requests of a server.
#ifndef GYM_HTTP_CLIENT_SERVING_ANSWERING_HPP
#define GYM_HTTP_CLIENT_SERVING_ANSWERING_HPP

#include <set>

#include "gym_http_client/serving/dialects.hpp"
#include "gym_http_client/serving/fitting.hpp"
#include "gym_http_client/serving/provided_env.hpp"

namespace gym_http::detail {

/// The result of a request.
struct Outcome {
    Value result{};  ///< A dict, unless there is an error.
    std::optional<EnvError> error{};
};

inline Value value_of(const Json& json) { return read_json(write_json(json)); }

/// Calls the handlers of one environment, one at a time.
class Answering {
public:
    /// @throws UsageError A handler is missing.
    Answering(const ProvidedEnv& provided, std::function<void()> wake)
        : provided_(provided), wake_(std::move(wake)), spaces_(own_spaces()) {
        if (!provided.step) throw UsageError("there is no step: give it a function");
        if (!provided.reset && !provided.observe)
            throw UsageError("there is neither reset nor observe: give one a function");
    }

    /// Whether an agent has it.
    bool taken = false;

    /// The members of its hello.
    Json hello(const std::string& resume) const {
        std::set<std::string> can(provided_.capabilities.begin(), provided_.capabilities.end());
        can.insert("replay");
        if (provided_.reset) can.insert("reset");
        if (provided_.render) can.insert("render");
        if (provided_.hz > 0) can.insert("realtime");
        Json hello{{"type", "hello"},
                   {"protocol", 1},
                   {"name", provided_.name},
                   {"observation_space", describe(provided_.observation_space)},
                   {"action_space", describe(provided_.action_space)},
                   {"capabilities", can},
                   {"render_modes", provided_.render_modes},
                   {"metadata", provided_.metadata},
                   {"dialect", provided_.dialect == Dialect::binary ? "binary" : "json"}};
        if (!provided_.reward_channels.empty()) hello["reward_channels"] = provided_.reward_channels;
        if (provided_.hz > 0) hello["realtime"] = {{"hz", provided_.hz}};
        if (provided_.replace) hello["replace"] = true;
        if (!resume.empty()) hello["resume"] = resume;
        return hello;
    }

    /// Whether a handler has not answered yet.
    bool is_busy() const { return bool(look_); }

    /// Returns the answer of the last called handler, once.
    std::optional<Outcome> look() {
        auto outcome = look_();
        if (outcome) look_ = nullptr;
        return outcome;
    }

    /// Calls a handler.
    void send_request(const ServerMessage& received) {
        try {
            if (received.type == "init") return init(received);
            if (received.type == "reset") return reset(received);
            if (received.type == "step") return step(received);
            if (received.type == "render") return render();
            if (received.type == "close") return close();
            throw EnvError("this environment does not support " + received.type, "unsupported");
        } catch (const EnvError& error) {
            look_ = [error] { return std::optional<Outcome>(Outcome{{}, error}); };
        }
    }

private:
    Spaces own_spaces() const { return {provided_.observation_space, provided_.action_space}; }

    template <class Result, class Finish, class... Asked>
    void call(const std::string& name, const Handler<Result, Asked...>& handler, Finish finish,
              const Asked&... requested) {
        const auto slot = std::make_shared<Slot<Result>>();
        slot->wake = wake_;
        look_ = [slot, name, finish] { return outcome_of(*slot, name, finish); };
        const auto fail = [&slot](const EnvError& error) {
            const std::lock_guard<std::mutex> lock(slot->mutex);
            if (!slot->result) slot->error.emplace(error);
        };
        try {
            handler(requested..., gym_http::Reply<Result>(slot));
        } catch (const EnvError& error) {
            fail(error);
        } catch (const std::exception& error) {
            fail(EnvError(error.what()));
        } catch (...) {
            fail(EnvError("something was thrown that is no std::exception"));
        }
    }

    template <class Result, class Finish>
    static std::optional<Outcome> outcome_of(Slot<Result>& slot, const std::string& name,
                                       const Finish& finish) {
        const std::lock_guard<std::mutex> lock(slot.mutex);
        if (slot.error) return Outcome{{}, named(*slot.error, name)};
        if (!slot.result) return {};
        try {
            return Outcome{finish(*slot.result), {}};
        } catch (const std::exception& error) {
            return Outcome{{}, named(EnvError(error.what()), name)};
        }
    }

    /// The problem of an exception, for agents.
    static EnvError named(const EnvError& error, const std::string& name) {
        for (const char* undone :
             {"bad-parameter", "invalid-action", "reset-needed", "unsupported"}) {
            if (error.code() == undone) return error;
        }
        return EnvError(name + " failed: " + error.message());
    }

    static Value dict_of(const ServerMessage& received, const char* name) {
        const Value* found = received.find(name);
        return found != nullptr && found->kind() == Kind::dict ? *found : Value::dict({});
    }

    static Value info_of(const Value& info) { return info.is_none() ? Value::dict({}) : info; }

    void init(const ServerMessage& received) {
        const InitAsked requested{dict_of(received, "kwargs"), received.text("render_mode")};
        const auto finish = [this](const Spaces& given) {
            spaces_ = own_spaces();
            if (given.observation) spaces_.observation = given.observation;
            if (given.action) spaces_.action = given.action;
            taken = true;
            return Value::dict({{"observation_space", value_of(describe(*spaces_.observation))},
                                {"action_space", value_of(describe(*spaces_.action))}});
        };
        if (provided_.init) return call("init", provided_.init, finish, requested);
        if (requested.kwargs.size() != 0)
            throw EnvError("kwargs are given, as " +
                               to_string(requested.kwargs.members().front().first) +
                               ": expected none, since this environment has no arguments",
                           "bad-parameter");
        call("init", Handler<Spaces>([] { return Spaces{}; }), finish);
    }

    void reset(const ServerMessage& received) {
        const auto finish = [this](const Reset& given) {
            return Value::dict({{"observation", fitted(*spaces_.observation, given.observation)},
                                {"info", info_of(given.info)}});
        };
        if (provided_.reset)
            return call("reset", provided_.reset, finish,
                        ResetAsked{seed_of(received), dict_of(received, "options")});
        call("reset", provided_.observe,
             [finish](const Value& observation) { return finish(Reset{observation, {}}); });
    }

    static std::optional<std::uint64_t> seed_of(const ServerMessage& received) {
        const Value* seed = received.find("seed");
        if (seed == nullptr) return {};
        const auto number = integer_in(*seed, Dtype::read("<u8"));
        if (number && !number->negative) return number->magnitude;
        throw EnvError("seed is " + to_string(*seed) + ": expected an integer from 0 to 2**64 - 1",
                       "bad-parameter");
    }

    void step(const ServerMessage& received) {
        const auto finish = [this](const StepGiven& given) {
            Value reward(given.reward);
            if (!provided_.reward_channels.empty())
                reward = Value::list({given.rewards.begin(), given.rewards.end()});
            return Value::dict({{"observation", fitted(*spaces_.observation, given.observation)},
                                {"reward", std::move(reward)},
                                {"terminated", given.terminated},
                                {"truncated", given.truncated},
                                {"info", info_of(given.info)}});
        };
        const Value* action = received.find("action");
        try {
            const Value element = fitted(*spaces_.action, action == nullptr ? Value() : *action);
            call("step", provided_.step, finish, element);
        } catch (const ProtocolError& error) {
            throw EnvError("the action: " + error.message(), "invalid-action");
        }
    }

    void render() {
        if (!provided_.render) throw EnvError("this environment renders no frames", "unsupported");
        call("render", provided_.render,
             [](const Value& frame) { return Value::dict({{"rendered", frame}}); });
    }

    void close() {
        taken = false;
        spaces_ = own_spaces();
        const auto finish = [](const Nothing&) { return Value::dict({}); };
        if (provided_.close) return call("close", provided_.close, finish);
        call("close", Handler<Nothing>([] {}), finish);
    }

    const ProvidedEnv& provided_;
    std::function<void()> wake_;
    Spaces spaces_;
    std::function<std::optional<Outcome>()> look_{};
};

}  // namespace gym_http::detail

#endif
