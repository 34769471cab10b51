/// @file
/// An instance on a server, and its calls.
#ifndef GYM_HTTP_CLIENT_INSTANCE_HPP
#define GYM_HTTP_CLIENT_INSTANCE_HPP

#include "gym_http_client/elements.hpp"
#include "gym_http_client/lifetime.hpp"
#include "gym_http_client/printing.hpp"

namespace gym_http {

/// Placeholder for a frame.
struct Png {
    Bytes content{};  ///< A whole PNG file.
};

/// The common part of environments and vectors. Move-only; the destructor closes the
/// instance. It is used by one thread at a time; several may be used at once.
class Instance {
public:
    Instance(Instance&&) noexcept = default;  ///< Leaves nothing in the other one.
    /// Closes the instance that was here.
    Instance& operator=(Instance&& other) noexcept {
        if (this != &other) {
            abandon();
            state_ = std::move(other.state_);
        }
        return *this;
    }
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;
    ~Instance() { abandon(); }  ///< Closes the instance; errors in that are lost.

    /// Ends the instance. Has no effect on an ended one.
    /// @throws TransportError There is no answer.
    /// @throws ApiError The server refuses.
    void close() {
        if (!state_) return;
        const auto state = std::move(state_);
        end(*state, state->http.server().timeout_s);
    }

    /// Stops using the instance, which stays on the server: `attach` can use it.
    /// @returns Its ID.
    /// @throws UsageError It was closed, moved from or released.
    std::string release() {
        std::string id = state().id;
        state_.reset();
        return id;
    }

    /// Its ID, as it is part of the server's addresses.
    const std::string& instance_id() const { return state().id; }
    /// Whether it was closed, moved from or released.
    bool closed() const noexcept { return !state_; }

    /// The action space; requested once.
    /// @throws Error The request failed.
    const Space& action_space() { return space("action_space/", state().action_space); }
    /// The observation space; requested once.
    /// @throws Error The request failed.
    const Space& observation_space() {
        return space("observation_space/", state().observation_space);
    }

    /// The server's description of the instance.
    Json describe() { return get(""); }
    /// The last episodes, whichever way their steps arrived: `episodes`, `current`, `total`.
    /// @param last How many at most, 1 to 1000.
    /// @param from Number of the first one; the first episode has number 0.
    Json episodes(int last = 1000, std::uint64_t from = 0) {
        const auto query = "?last=" + std::to_string(last) + "&from=" + std::to_string(from);
        return get(("episodes/" + query).c_str());
    }
    /// The keys with which a person plays the environment: `keys`, `noop`, `wait`, `fps`.
    Json keys() { return get("keys/"); }

    /// The present frame, unchanged: an array, text, or a list; None without
    /// a `render_mode`.
    Value render() {
        return member(send_request(detail::plain_request(detail::Operation::render, Json::object())),
                      "rendered");
    }

    /// The present frame as a PNG file.
    Png render_png() {
        detail::Request request;
        request.method = "POST";
        request.path = path("render/");
        request.accept = "image/png";
        request.key = detail::random_name();
        const detail::Reply reply = state().http.send(request, deadline());
        if (reply.status != 200 || !reply.is("image/png"))
            detail::throw_refusal(reply, state().http.url(request.path));
        return Png{std::move(*reply.body)};
    }

    /// An action that the server draws; `seed` seeds the space first.
    Value sample_action(std::optional<std::uint64_t> seed = {}) {
        return member(send_request(detail::plain_request(detail::Operation::action_sample, seeded(seed))),
                      "action");
    }

    /// An attribute of the environment, or of one of its wrappers; None of a method.
    Value attribute(const std::string& name) {
        detail::InstanceRequest requested;
        requested.operation = detail::Operation::attribute;
        requested.name = name;
        const Value answer = send_request(requested);
        const Value* value = answer.kind() == Kind::dict ? answer.find("value") : nullptr;
        return value == nullptr ? Value() : *value;
    }

    /// Sets an attribute; with `force` false, only an existing one.
    /// @returns Whether it was set.
    bool set_attribute(const std::string& name, const Value& value, bool force = true) {
        return member(send_request(detail::exact_request(detail::Operation::set_attribute,
                                            Value::dict({{"value", value}, {"force", force}}),
                                            name)),
                      "set")
            .to<bool>();
    }

    /// Calls a method of the environment.
    Value call(const std::string& name, Value::Items args = {}, Value::Members kwargs = {}) {
        return member(send_request(detail::exact_request(detail::Operation::call_attribute,
                                            Value::dict({{"args", Value::list(std::move(args))},
                                                         {"kwargs", Value::dict(std::move(kwargs))}}),
                                            name)),
                      "value");
    }

protected:
    /// @cond
    Instance(Server server, const Json& request, detail::TransportMaker maker)
        : state_(std::make_unique<State>(std::move(server))) {
        Json outcome = request;
        for (auto member = outcome.begin(); member != outcome.end();)
            member = member->is_null() ? outcome.erase(member) : std::next(member);
        state_->id = detail::create_instance(state_->http, outcome);
        state_->transport = maker(state_->http, state_->id);
    }

    /// Uses an existing instance, which stays open if this throws.
    Instance(detail::Attached attached, bool is_vector, detail::TransportMaker maker)
        : state_(std::make_unique<State>(std::move(attached.server))) {
        state_->num_envs = detail::find_instance(state_->http, attached.id);
        if (is_vector != (state_->num_envs != 0))
            throw UsageError("instance " + attached.id + " is " +
                             (is_vector ? "no vector: attach to it as Env"
                                        : "a vector: attach to it as VectorEnv"));
        state_->id = std::move(attached.id);
        state_->transport = maker(state_->http, state_->id);
    }

    /// How many environments there are in a vector that was attached to.
    std::size_t attached_envs() const { return state().num_envs; }

    Value send_request(const detail::InstanceRequest& requested) {
        Value answer = state().transport->send_request(requested);
        state().http.warn_of(answer);
        return answer;
    }

    const Server& server() const { return state().http.server(); }

    std::string url(const char* rest) const { return state().http.url(path(rest)); }

    /// A member of an answer, which has to be there.
    Value member(const Value& answer, const char* name) const {
        const Value* found = answer.kind() == Kind::dict ? answer.find(name) : nullptr;
        if (found == nullptr)
            throw ProtocolError(std::string("the answer has no \"") + name + "\"",
                                Place{url(""), 200, ""});
        return *found;
    }

    static Json seeded(std::optional<std::uint64_t> seed) {
        Json body = Json::object();
        if (seed) body["seed"] = *seed;
        return body;
    }
    /// @endcond

private:
    struct State {
        explicit State(Server server) : http(std::move(server)) {}

        detail::Http http;
        std::string id{};
        std::size_t num_envs = 0;
        std::unique_ptr<detail::Transport> transport{};
        std::optional<Space> action_space{};
        std::optional<Space> observation_space{};
    };

    State& state() const {
        if (!state_) throw UsageError("the environment is closed, or was moved from or released");
        return *state_;
    }

    detail::Deadline deadline() const {
        return detail::Deadline(state().http.server().timeout_s);
    }

    std::string path(const char* rest) const { return detail::instance_path(state().id) + rest; }

    Json get(const char* rest) { return detail::get_json(state().http, path(rest)); }

    const Space& space(const char* rest, std::optional<Space>& known) {
        if (!known) {
            const Json answer = get(rest);
            try {
                if (!answer.contains("space"))
                    throw ProtocolError("the answer has no \"space\"");
                known = read_space(answer["space"]);
            } catch (const ProtocolError& error) {
                throw error.at(Place{url(rest), 200, ""});
            }
        }
        return *known;
    }

    static void end(State& state, double seconds) {
        state.transport.reset();
        detail::end_instance(state.http, state.id, seconds);
    }

    void abandon() noexcept {
        if (!state_) return;
        const auto state = std::move(state_);
        try {
            end(*state, std::min(state->http.server().timeout_s, 5.0));
        } catch (...) {
            // The server ends unused instances.
        }
    }

    std::unique_ptr<State> state_;
};

}  // namespace gym_http

#endif
