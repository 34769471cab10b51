// Tests of C++ itself: owners, views, threads. Usage: native COMMAND [URL]
#include <gym_http_client/stream.hpp>
#include <iostream>
#include <thread>

#include "checks.hpp"
#include "conversing.hpp"
#include "texts.hpp"

// Of the other translation unit, which includes everything as well.
void run_readme();

namespace {

using namespace gym_http;

static_assert(!std::is_copy_constructible_v<Env> && !std::is_copy_assignable_v<Env>);
static_assert(std::is_nothrow_move_constructible_v<StreamEnv>);
static_assert(std::is_nothrow_move_assignable_v<VectorEnv>);
static_assert(std::is_base_of_v<Error, TransportError> && std::is_base_of_v<Error, ApiError> &&
              std::is_base_of_v<Error, ProtocolError> && std::is_base_of_v<Error, UsageError>);
static_assert(std::is_base_of_v<std::exception, Error>);

// Steps from a seed, as a sum that shows whether two runs were alike.
template <class E>
std::vector<float> play(const std::string& url, std::uint64_t seed) {
    E env(url, "CartPole-v1");
    std::vector<float> seen;
    env.reset(seed);
    for (int step = 0; step < 40; ++step) {
        const Step taken = env.step(step % 2);
        for (const float each : taken.observation.template as<float>()) seen.push_back(each);
        if (taken.done()) env.reset();
    }
    return seen;
}

template <class E>
void agents(const std::string& url) {
    EnvOptions options;
    options.kwargs = {{"max_cycles", 2}};
    E env(url, "pettingzoo/classic.rps_v2", options);
    check(env.reset(1).info.members().size() == 2, "infos by agent");
    Step step = env.step(Json{{"player_0", 0}, {"player_1", 2}});
    check(step.agents["reward"]["player_0"].template to<double>() == 1.0, "a stone wins");
    check(step.observation["player_1"].template to<int>() == 0, "and is seen");
    check(!step.done(), "agents are left");
    step = env.step(Json{{"player_0", 1}, {"player_1", 1}});
    check(step.done() && step.truncated, "no agent is left");
    options.api = "aec";
    E turns(url, "pettingzoo/classic.rps_v2", options);
    turns.reset();
    check(turns.step(Json{{"player_0", 0}}).observation.find("player_1") != nullptr, "a turn");
}

void urls_of_streams() {
    const std::string path = "/v1/envs/00a3c657/stream";
    const auto node = [&](const std::string& first, const std::string& url) {
        return detail::node_of(url, first, path).value_or("");
    };
    check(node("http://lb", "ws://10.0.0.7:5000" + path + "/") == "http://10.0.0.7:5000", "ws");
    check(node("http://lb", "ws://[fd00::7]:5000" + path) == "http://[fd00::7]:5000", "IPv6");
    check(node("http://lb", "wss://node-2" + path) == "https://node-2", "wss");
    check(node("https://lb", "wss://node-2/gym" + path + "/") == "https://node-2/gym", "a prefix");
    check(node("https://lb", "ws://node-2" + path).empty(), "never without TLS instead of with");
    for (const std::string& url :
         {"http://node-2" + path, "ws://user:secret@node-2" + path, "ws://node-2/?x=" + path,
          "ws://node-2/#" + path, "ws://node 2" + path, "ws://node-2\r\nX: y" + path,
          "ws://" + path, "ws://node-2" + path + "/other", std::string("ws://"), std::string(),
          std::string("ws://node-2/v1/envs/00a00000/stream/")})
        check(node("http://lb", url).empty(), url.c_str());
}

void threads(const std::string& url) {
    constexpr std::size_t count = 6;
    std::vector<std::vector<float>> together(count);
    std::vector<std::thread> running;
    for (std::size_t each = 0; each < count; ++each) {
        running.emplace_back([&, each] {
            together[each] = each % 2 == 0 ? play<Env>(url, each) : play<StreamEnv>(url, each);
        });
    }
    for (std::thread& each : running) each.join();
    for (std::size_t each = 0; each < count; ++each)
        check(together[each] == play<StreamEnv>(url, each), "a thread saw what it sees alone");
    check(together[0] != together[1], "seeds differ");
}

void requests(const std::string& url) {
    Client client(url);
    const Answer made = client.request("POST", "/v1/envs/", json_body({{"env_id", "CartPole-v1"}}));
    check(made.status == 200 && made.header("content-type") == "application/json", "JSON is sent");
    const std::string path = "/v1/envs/" + made.json()["instance_id"].get<std::string>() + "/";
    RequestOptions options;
    options.body = "{\"seed\": 42}";
    options.content_type = "application/json";
    options.headers["Accept"] = "application/vnd.gym-http.typed+json";
    const Answer reset = client.request("POST", path + "reset/", options);
    check(reset.header("content-type") == "application/vnd.gym-http.typed+json", "a header counts");
    check(client.request("GET", path).json()["episodes"] == 0, "a GET follows a POST");
    check(client.request("DELETE", path).status == 204, "it is closed");
    check(client.request("GET", "/v1/").json()["api"] == "v1", "a GET follows a DELETE");
    check_throws<ApiError>([&] { client.request("GET", path); }, "an error is thrown");
    RequestOptions bytes;
    bytes.body = std::string("\0\xff", 2);
    try {
        client.request("PUT", "/v1/envs/", bytes);
        check(false, "a method that is not there is refused");
    } catch (const ApiError& error) {
        check(error.code() == "method-not-allowed", "PUT is sent");
    }
    const std::string run = "/v1/runs/cpp-" + detail::random_name() + "/";
    client.request("POST", "/v1/runs/", json_body({{"run", run.substr(9, run.size() - 10)}}));
    bytes.headers["If-None-Match"] = "*";
    const Answer stored = client.request("PUT", run + "weights/", bytes);
    const Answer got = client.request("GET", run + "weights/");
    check(stored.status == 201 && got.body == bytes.body, "bytes are returned as they were");
    RequestOptions known;
    known.headers["If-None-Match"] = got.header("etag");
    check(client.request("GET", run + "weights/", known).status == 304, "a header is sent");
    check(client.request("DELETE", run).status == 204, "the run is deleted");
    RequestOptions broken;
    broken.headers["X-A"] = "a\r\nX-B: b";
    check_throws<UsageError>([&] { client.request("GET", "/v1/", broken); }, "one line only");
}

void owners(const std::string& url) {
    Env first(url, "CartPole-v1");
    const std::string id = first.instance_id();
    Env second = std::move(first);
    check(first.closed() && second.instance_id() == id, "an environment moves");
    check_throws<UsageError>([&] { first.reset(); }, "what was moved from is refused");
    second.reset(1);
    second = Env(url, "CartPole-v1");
    check(second.instance_id() != id, "another one takes its place");
    second.reset(1);
    second.close();
    second.close();
    check_throws<UsageError>([&] { second.step(0); }, "a closed one is refused");
    StreamEnv stream(url, "CartPole-v1");
    stream.reset(1);
    Env taken = std::move(stream);
    check(taken.step(0).reward == 1, "a stream moves along");
}

void views(const std::string& url) {
    StreamEnv env(url, "CartPole-v1");
    const Value first = env.reset(42).observation;
    const float before = first.as<float>()[0];
    Value copy = first;
    for (int step = 0; step < 50; ++step) {
        if (env.step(step % 2).done()) env.reset();
    }
    env.close();
    check(copy.as<float>()[0] == before, "a view outlives its step and its environment");
    check(first.as<float>().data() == copy.as<float>().data(), "a copy shares the buffer");
    check(reinterpret_cast<std::uintptr_t>(first.as<float>().data()) % 8 == 0, "it is aligned");
    check_throws<UsageError>([&] { copy.as<double>(); }, "another dtype is refused");
    check_throws<UsageError>([&] { static_cast<void>(copy["x"]); }, "an array has no keys");
    check_throws<std::out_of_range>([&] { copy.as<float>().at(4); }, "an index is checked");
}

void containers(const std::string& url) {
    StreamEnv env(url, "Blackjack-v1");
    const Reset reset = env.reset(3);
    check(reset.observation.kind() == Kind::tuple && reset.observation.size() == 3, "a tuple");
    check(reset.observation[0].to<int>() > 0, "an item of it");
    check(env.observation_space().is<spaces::Tuple>(), "its space");
    check(env.observation_space().contains(reset.observation), "it is an element of that");
}

template <class Vector>
void vectors(const std::string& url) {
    VectorOptions options;
    options.vectorization_mode = "sync";
    options.autoreset_mode = "same_step";
    Vector env(url, "CartPole-v1", 3, options);
    const Reset reset = env.reset({1, 2, 3});
    check(reset.observation.shape() == Shape{3, 4}, "observations of all");
    const VectorStep step = env.step({0, 1, 0});
    check(step.rewards.to_doubles() == std::vector<double>(3, 1.0), "rewards of all");
    check(!step.done(0) && !step.done(2), "flags of all");
    check(step.observations.row(1).shape() == Shape{4}, "an observation of one");
    Env alone(url, "CartPole-v1");
    alone.reset(2);
    // Named first: a view of a temporary does not compile.
    const Value one = step.observations.row(1);
    const Step same = alone.step(1);
    check(one.as<float>().to_vector() == same.observation.as<float>().to_vector(),
          "one of them is as it would be alone");
}

template <class E>
void operations(const std::string& url) {
    EnvOptions options;
    options.render_mode = "rgb_array";
    options.seed = 5;
    E env(url, "Pendulum-v1", options);
    const Json described = env.describe();
    check(described["env_id"] == "Pendulum-v1", "a description");
    env.reset();
    const double exact = env.step(Value::array(std::vector<float>{0.5F})).reward;
    env.reset(5);
    check(env.step({0.5}).reward == exact, "braces and values are one action");
    env.reset(5);
    const Steps steps = env.steps(std::vector<std::vector<float>>{{0.5F}, {0.5F}});
    check(steps.count == 2 && steps.stopped.empty(), "two steps");
    check(steps.rewards.template as<double>()[0] == exact, "the first of them");
    check(steps.observations.shape() == Shape{2, 3}, "their observations");
    const Value played = env.rollout({{"episodes", 2}, {"max_steps", 3}, {"seed", 1}});
    check(played["episodes"].size() == 2, "episodes");
    const Value frame = env.render();
    check(frame.shape().size() == 3 && frame.template as<std::uint8_t>().size() > 1000, "a frame");
    const Png png = env.render_png();
    check(png.content.size() > 8 && png.content[1] == 'P', "a PNG file");
    check(env.set_attribute("g", 1.62), "an attribute is set");
    check(env.attribute("g").template to<double>() == 1.62, "and read");
    check(env.call("get_wrapper_attr", {"g"}).template to<double>() == 1.62, "and called for");
    check(env.action_space().contains(env.sample_action(1)), "the server's sample");
    check_throws<ApiError>([&] { env.step("left"); }, "an action that is none");
    check_throws<UsageError>([&] { env.step(std::nan("")); }, "JSON has no NaN");
}

template <class E>
void clocks(const std::string& url) {
    // By Gymnasium: Pendulum-v1 with the seed 42, and the actions 0 and 1.5.
    E env(url, "Pendulum-v1", Json{{"mode", "elastic"}, {"hz", 100}});
    const Reset reset = env.reset(42);
    check(reset.observation.template as<float>()[0] == -0.149952560F, "a reset");
    check(reset.realtime["episode"].template to<int>() == 1, "its timing");
    const Step step = env.step({1.5});
    check(step.observation.template as<float>()[0] == -0.180489525F, "of the action before");
    check(step.reward == -2.9644252412400434, "its reward, too");
    check(step.realtime["action"]["value"].to_doubles()[0] == 0, "the default one");
    const Step next = env.step(Value::array(std::vector<float>{0.0F}));
    check(next.observation.template as<float>()[0] == -0.257643043F, "of the action before, again");
    check(env.pause()["state"].text() == "paused", "a pause");
    try {
        env.step({0.0});
        check(false, "a paused clock refuses steps");
    } catch (const ApiError& error) {
        check(error.code() == "paused", "for that reason");
    }
    check(env.resume()["state"].text() == "running", "a paused clock goes on");
    check(env.set_timing({{"hz", 50}})["settings"]["hz"].template to<double>() == 50, "a rate");
    check(env.timing()["state"].text() == "running", "a state");
    check(env.trace(3, "json")["events"].size() == 3, "a trace");
}

template <class E>
void updates(const std::string& url) {
    E env(url, "Pendulum-v1", Json{{"mode", "free_running"}, {"hz", 100}});
    env.reset(42);
    Updates updates = env.updates();
    std::uint64_t last = 1;
    for (std::uint64_t count = 1; count <= 10; ++count) {
        const auto update = updates.next();
        check(update && update->realtime["update"].template to<std::uint64_t>() > last, "a later one");
        last = update->realtime["update"].template to<std::uint64_t>();
        const Value acted = count % 2 == 0 ? env.act(Value::array(std::vector<float>{0.5F}))
                                           : env.act(std::vector<float>{0.5F});
        check(acted["sequence"].template to<std::uint64_t>() == count, "its sequence");
    }
    check(updates.lost() == 0, "none is lost");
    ActOptions later;
    later.at = last + 1000;
    env.act_chunk(std::vector<std::vector<float>>{{0.5F}, {0.0F}}, later);
    env.alive();
    const Value counts = env.timing()["actions"];
    std::int64_t sum = 0;
    for (const char* name : {"applied", "superseded", "expired", "rejected", "waiting"})
        sum += counts[name].template to<std::int64_t>();
    check(counts["received"].template to<std::int64_t>() == sum && sum == 12, "counts are conserved");
    const std::string id = Env(url, "CartPole-v1").release();
    E other = E::attach(url, id);
    check_throws<ApiError>([&] { other.updates().next(); }, "another environment has no clock");
}

template <class E>
void all_updates(const std::string& url) {
    EnvOptions options;
    options.max_episode_steps = 20;
    const Json clock{{"mode", "free_running"}, {"hz", 100}, {"episodes", 1}};
    E env(url, "Pendulum-v1", clock, options);
    env.reset(42);
    Updates updates = env.updates("all");
    std::uint64_t count = 0;
    while (const auto update = updates.next()) {
        // The first is that of the reset.
        check(update->realtime["update"].template to<std::uint64_t>() == ++count + 1, "its number");
        check(update->truncated == (update->realtime.find("last") != nullptr), "the last");
    }
    check(count == 20 && updates.lost() == 0, "all updates arrive");
    check_throws<ApiError>([&] { env.act(std::vector<float>{0.5F}); }, "the end of the world");
}

template <class E>
void warnings(const std::string& url) {
    std::vector<Warning> outcome;
    Server server(url);
    server.on_warning = [&](const Warning& warning) { outcome.push_back(warning); };
    E env(server, "CartPole-v0");
    env.reset(42);
    // Gymnasium's own, of the version and of steps behind the end.
    check(outcome.size() == 1 && outcome[0].category == "DeprecationWarning", "one of the version");
    check(outcome[0].message.find("CartPole-v0 is out of date") != std::string::npos, "its words");
    for (int step = 0; step < 20; ++step) env.step(1);
    check(outcome.size() == 2, "one of the steps");
    check(outcome[1].message.find("already returned terminated = True") != std::string::npos,
          "its words, too");
}

template <class E, class V>
void attached(const std::string& url) {
    EnvOptions options;
    options.label = "from C++";
    E first(url, "CartPole-v1", options);
    first.reset(42);
    const std::string id = first.release();
    std::map<std::string, std::string> labels;
    const Json listed = instances(url);
    for (const Json& each : listed.at("instances"))
        if (each.at("label").is_string())
            labels[each.at("instance_id").get<std::string>()] = each.at("label").get<std::string>();
    check(labels[id] == "from C++", "the list shows the label");
    check(instances(url, id, "idle").at("instances").size() == 1, "it is found by its ID");
    check(instances(url, "FROM c++", "busy").at("instances").empty(), "it is not busy");
    check(first.closed(), "what was released is closed here");
    check_throws<UsageError>([&] { first.release(); }, "nothing is released twice");
    check(list(url).at(id) == "CartPole-v1", "it is still there");
    check_throws<UsageError>([&] { V::attach(url, id); }, "a single one is no vector");
    check_throws<UsageError>([&] { E::attach(url, "../x"); }, "this is no ID");
    check_throws<UsageError>([&] { E::attach(url, ""); }, "nor is nothing");
    check_throws<ApiError>([&] { E::attach(url, "00000000"); }, "nothing has that ID");
    {
        E again = E::attach(url, id);
        check(again.instance_id() == id, "it is that one");
        check(again.episodes(1).at("total").template get<int>() == 0, "no episode has ended");
        check(again.keys().at("noop").template get<int>() == 0, "people play it by keys");
        E alone(url, "CartPole-v1");
        alone.reset(42);
        const Value here = again.step(1).observation, there = alone.step(1).observation;
        check(here.to_doubles() == there.to_doubles(), "it goes on where it was");
        check(again.render().is_none(), "without a render_mode there is no frame");
    }
    check(list(url).count(id) == 0, "what was attached to is closed with its owner");
    const std::string of_vector = V(url, "CartPole-v1", 3).release();
    check_throws<UsageError>([&] { E::attach(url, of_vector); }, "a vector is no single one");
    V vector = V::attach(url, of_vector);
    check(vector.num_envs() == 3 && vector.reset(1).observation.shape() == Shape{3, 4}, "a vector");
}

}  // namespace

int main(int count, char** words) {
    const std::string command = count > 1 ? words[1] : "";
    const std::string url = count > 2 ? words[2] : "";
    try {
        if (command == "readme") run_readme();
        if (command == "texts") {
            texts::json_of_values();
            texts::printed_values();
            texts::printed_spaces();
            texts::addresses();
            urls_of_streams();
        }
        if (command == "conversations") conversing::all();
        if (command == "attached") {
            attached<Env, VectorEnv>(url);
            attached<StreamEnv, StreamVectorEnv>(url);
        }
        if (command == "warnings") {
            warnings<Env>(url);
            warnings<StreamEnv>(url);
        }
        if (command == "requests") requests(url);
        if (command == "clocks") {
            clocks<RealTimeEnv>(url);
            clocks<StreamRealTimeEnv>(url);
            updates<RealTimeEnv>(url);
            updates<StreamRealTimeEnv>(url);
            all_updates<RealTimeEnv>(url);
            all_updates<StreamRealTimeEnv>(url);
        }
        if (command == "threads") threads(url);
        if (command == "owners") owners(url);
        if (command == "views") views(url);
        if (command == "containers") containers(url);
        if (command == "vectors") {
            vectors<VectorEnv>(url);
            vectors<StreamVectorEnv>(url);
        }
        if (command == "agents") {
            agents<Env>(url);
            agents<StreamEnv>(url);
        }
        if (command == "operations") {
            operations<Env>(url);
            operations<StreamEnv>(url);
        }
    } catch (const std::exception& error) {
        std::cout << "FAIL " << error.what() << "\n";
        return 1;
    }
    std::cout << failures << " failed\n";
    return failures == 0 ? 0 : 1;
}
