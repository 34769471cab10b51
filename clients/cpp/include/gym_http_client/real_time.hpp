/// @file
/// Environments whose clock does not wait for the agent.
#ifndef GYM_HTTP_CLIENT_REAL_TIME_HPP
#define GYM_HTTP_CLIENT_REAL_TIME_HPP

#include <cmath>
#include <deque>

#include "gym_http_client/env.hpp"

namespace gym_http {

/// The options of an action; the server has defaults for them.
struct ActOptions {
    std::optional<std::uint64_t> at{};      ///< Tick of the first action of a chunk.
    std::optional<double> blend{};          ///< Weight of a chunk where it overlaps another.
    std::optional<std::uint64_t> update{};  ///< The answered update; the last one by default.
    std::optional<double> valid_s{};        ///< Seconds after which it expires.
    std::optional<int> priority{};          ///< The highest valid one is applied.
};

namespace detail {

/// A connection of its own to an instance, for requests in real time.
struct RealTimeLink {
    RealTimeLink(const Server& server, const std::string& id, TransportMaker maker)
        : http(server), transport(maker(http, id)) {}

    Value send_request(const InstanceRequest& query) {
        Value answer = transport->send_request(query);
        http.warn_of(answer);
        return answer;
    }

    Http http;
    std::unique_ptr<Transport> transport;
    std::string session = random_name();
    std::uint64_t sequence = 0;
    std::uint64_t seen = 0;
};

}  // namespace detail

/// Iterates over the updates of one environment, on a connection of its own.
/// `RealTimeEnv::updates` makes one, and it does not outlive the environment's instance.
class Updates {
public:
    /// Waits for the next update. A request asks for one when it is wanted, so none is
    /// older than necessary.
    /// @returns The update, in the form of a step; nothing when all episodes have ended.
    /// @throws Error The request failed.
    std::optional<Step> next() {
        while (arrived_.empty()) {
            if (ended_) return {};
            ask();
        }
        const Value answer = std::move(arrived_.front());
        arrived_.pop_front();
        Step step = detail::step_of(answer, url_);
        if (step.realtime.is_none()) throw ProtocolError("an update has no \"realtime\"");
        after_ = step.realtime["update"].to<std::uint64_t>();
        Value::Members timing = step.realtime.members();
        for (const char* name : {"agent_lost", "last", "reset"}) {
            const Value* found = answer.find(name);
            if (found != nullptr) timing.emplace_back(name, *found);
        }
        step.realtime = Value::dict(std::move(timing));
        ended_ = answer.find("last") != nullptr;
        return step;
    }

    /// Number of updates so far that the server's buffer could not hold.
    std::uint64_t lost() const noexcept { return lost_; }

private:
    friend class RealTimeEnv;

    Updates(const Server& server, const std::string& id, detail::TransportMaker maker,
            std::optional<std::uint64_t> after, std::string deliver,
            std::optional<std::uint64_t> most)
        : link_(std::make_unique<detail::RealTimeLink>(server, id, maker)),
          url_(server.url + detail::instance_path(id) + "updates/"),
          after_(after),
          deliver_(std::move(deliver)),
          most_(most),
          wait_s_(std::min(10.0, std::floor(server.try_timeout_s * 500) / 1e3)) {}

    void ask() {
        Json body{{"deliver", deliver_}, {"wait_s", wait_s_}};
        if (after_) body["after"] = *after_;
        if (most_) body["max"] = *most_;
        try {
            const Value answer =
                link_->send_request(detail::query_request(detail::Operation::updates, body));
            for (const Value& each : answer["updates"].items()) arrived_.push_back(each);
            lost_ += answer["lost"].to<std::uint64_t>();
            ended_ = arrived_.empty() && answer["state"].text() == "ended";
        } catch (const ApiError& error) {
            if (error.code() != "world-ended") throw;
            ended_ = true;
        } catch (const UsageError& error) {
            throw ProtocolError("the answer has no updates: " + error.message(),
                                Place{url_, 200, ""});
        }
    }

    std::unique_ptr<detail::RealTimeLink> link_;
    std::string url_;
    std::optional<std::uint64_t> after_;
    std::string deliver_;
    std::optional<std::uint64_t> most_;
    double wait_s_;
    std::deque<Value> arrived_{};
    std::uint64_t lost_ = 0;
    bool ended_ = false;
};

/// An `Env` whose clock does not wait for the agent. `reset` and `step` answer when the
/// time step ends; their results have `realtime` and, of several channels, `rewards`.
class RealTimeEnv : public Env {
public:
    /// Makes an environment with a clock.
    /// @param server Its address, or a `Server`.
    /// @param env_id Gymnasium's name of it, as `CartPole-v1`.
    /// @param realtime The clock, as `{{"mode", "elastic"}, {"hz", 20}}`.
    /// @param options How it is made.
    /// @throws Error As for `Env`.
    RealTimeEnv(Server server, const std::string& env_id, const Json& realtime,
                const EnvOptions& options = {})
        : RealTimeEnv(std::move(server), env_id, realtime, options, detail::over_rest) {}

    /// Uses an existing environment. @see Env::attach
    static RealTimeEnv attach(Server server, const std::string& instance_id) {
        return RealTimeEnv(detail::Attached{std::move(server), instance_id}, detail::over_rest);
    }

    /// Begins an episode; the first reset starts the clock. @see Env::reset
    Reset reset(std::optional<std::uint64_t> seed = {}, const Json& options = Json()) {
        return noted(Env::reset(seed, options));
    }
    /// Acts, and waits for the end of the time step. @see Env::step
    template <class Action>
    Step step(const Action& action) {
        return noted(Env::step(action));
    }
    /// Acts with an action in braces, and waits for the end of the time step.
    Step step(const Json& action) { return noted(Env::step(action)); }

    /// Sets the action of the next ticks, and does not wait; it stays in force until another
    /// one replaces it.
    /// @param action As for `step`.
    /// @param options Its options.
    /// @returns A dict of `tick`, `now_ns`, `sequence` and `queued`.
    template <class Action>
    Value act(const Action& action, const ActOptions& options = {}) {
        return send_action("action", action, options);
    }
    /// Sets a chunk: one action for each tick. @see act
    template <class Actions>
    Value act_chunk(const Actions& actions, const ActOptions& options = {}) {
        return send_action("actions", actions, options);
    }
    /// Reports only that the agent lives.
    Value alive() { return send(detail::Operation::act, numbered(Json::object())); }

    /// The world's updates after one with a number.
    /// @param deliver `latest` merges updates that were missed; `all` returns each.
    /// @param after Number of the last known update; by default the last one that a reset
    ///     or step returned, else the newest comes first.
    /// @param most With `all`, how many updates an answer has at most.
    Updates updates(const std::string& deliver = "latest",
                    std::optional<std::uint64_t> after = {},
                    std::optional<std::uint64_t> most = {}) {
        if (!after && link().seen != 0) after = link().seen;
        return {server(), instance_id(), maker_, after, deliver, most};
    }

    /// The clock's settings, state and statistics, as a dict.
    Value timing() { return query(detail::Operation::realtime, Json::object()); }
    /// Changes settings of the clock from the next time step on.
    /// @param settings `hz` or `period_s`, `capture_s`, `elasticity`, `default_action`,
    ///     `agent_timeout_s`.
    Value set_timing(const Json& settings) {
        return send(detail::Operation::set_realtime, settings);
    }
    /// Pauses the clock at the end of the time step.
    Value pause() { return send(detail::Operation::pause, Json::object()); }
    /// Continues a paused clock.
    Value resume() { return send(detail::Operation::resume, Json::object()); }
    /// The last events of the clock: `chrome`, for a file that Perfetto opens, or `json`.
    Value trace(std::uint64_t last = 4096, const std::string& format = "chrome") {
        return query(detail::Operation::trace, Json{{"last", last}, {"format", format}});
    }

protected:
    /// @cond
    RealTimeEnv(Server server, const std::string& env_id, const Json& realtime,
                const EnvOptions& options, detail::TransportMaker maker)
        : Env(std::move(server), env_id, timed(options, realtime), maker), maker_(maker) {}
    RealTimeEnv(detail::Attached attached, detail::TransportMaker maker)
        : Env(std::move(attached), maker), maker_(maker) {}
    /// @endcond

private:
    static EnvOptions timed(EnvOptions options, const Json& realtime) {
        options.realtime = realtime;
        return options;
    }

    detail::RealTimeLink& link() {
        if (!link_)
            link_ = std::make_unique<detail::RealTimeLink>(server(), instance_id(), maker_);
        return *link_;
    }

    template <class Outcome>
    Outcome noted(Outcome outcome) {
        if (!outcome.realtime.is_none())
            link().seen = outcome.realtime["update"].template to<std::uint64_t>();
        return outcome;
    }

    Value send(detail::Operation operation, const Json& body) {
        return link().send_request(detail::plain_request(operation, body));
    }
    Value query(detail::Operation operation, const Json& body) {
        return link().send_request(detail::query_request(operation, body));
    }

    Json numbered(Json body) {
        body["session"] = link().session;
        body["sequence"] = ++link().sequence;
        return body;
    }

    template <class Action>
    Value send_action(const char* name, const Action& action, const ActOptions& options) {
        Json body = Json::object();
        if (options.at) body["at"] = *options.at;
        if (options.blend) body["blend"] = *options.blend;
        const std::uint64_t update = options.update.value_or(link().seen);
        if (update != 0) body["for"] = update;
        if (options.valid_s) body["valid_s"] = *options.valid_s;
        if (options.priority) body["priority"] = *options.priority;
        body = numbered(std::move(body));
        if constexpr (std::is_same_v<Action, Value>) {
            Value::Members members{{name, action}};
            for (const auto& member : body.items())
                members.emplace_back(member.key(), read_json(write_json(member.value())));
            return link().send_request(detail::exact_request(
                detail::Operation::act, Value::dict(std::move(members))));
        } else {
            body[name] = Json(action);
            return send(detail::Operation::act, body);
        }
    }

    detail::TransportMaker maker_;
    std::unique_ptr<detail::RealTimeLink> link_{};
};

}  // namespace gym_http

#endif
