// Provides an environment, and prints each event as a line of JSON.
//
//     providing run|poll URL NAME json|binary
//     providing game URL NAME FRAMES
//
// The environment of the first is that of local_env.py. The second is a game of 60 frames a
// second, which answers that many frames later; at its end it prints its frame times. A line
// on standard input, or its end, ends either. With the variable PROVIDER_REPLACE the first takes
// the place of an earlier one. The URL may be stdio: if a server starts it.
#include <dlfcn.h>
#include <netdb.h>

#include <cstdlib>
#include <gym_http_client/serve.hpp>
#include <iostream>
#include <thread>

// libcurl calls this one. It simulates a slow name server.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** found) {
    using Look = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
    static const auto look = reinterpret_cast<Look>(dlsym(RTLD_NEXT, "getaddrinfo"));
    if (name != nullptr && std::string_view(name) == "far.test") {
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        name = "127.0.0.1";
    }
    return look(name, service, hints, found);
}

namespace {

using namespace gym_http;
using Clock = std::chrono::steady_clock;

std::mutex printing;

void print(const Json& line) {
    const std::lock_guard<std::mutex> lock(printing);
    std::cout << line.dump(-1, ' ', true, Json::error_handler_t::replace) << std::endl;
}

// As local_env.py does, too.
class Twin {
public:
    static Space observations() {
        const Space place = spaces::discrete(1000);
        const Space seen = spaces::box(0, 255, {4}, "|u1");
        const Space speed = spaces::box(-1, 1, {2, 3});
        return spaces::Dict{{{"place", place}, {"seen", seen}, {"speed", speed}}};
    }
    static Space actions() {
        return spaces::Tuple{{spaces::discrete(5), spaces::box(-1, 1, {2})}};
    }

    Spaces init(const InitAsked& requested) {
        print({{"request", "init"}, {"kwargs", to_json(requested.kwargs)}, {"mode", requested.render_mode}});
        small_ = requested.kwargs.find("small") != nullptr;
        if (!small_) return {};
        return {Space(spaces::discrete(1000)), Space(spaces::discrete(5))};
    }

    Reset reset(const ResetAsked& requested) {
        if (requested.options.find("impossible") != nullptr)
            throw EnvError("no such option", "bad-parameter");
        const Value* mood = requested.options.find("mood");
        mood_ = mood == nullptr ? "" : mood->to<std::string>();
        if (requested.seed) drawn_ = static_cast<std::uint32_t>(*requested.seed);
        steps_ = 0;
        return {observed(), Value::dict({{"steps", 0}})};
    }

    Step step(const Value& action) {
        print({{"request", "step"}});
        if (mood_ == "stuck") throw std::runtime_error("the crate is stuck \xff");
        if (mood_ == "asleep") {
            print({{"log", "falls asleep"}});
            std::this_thread::sleep_for(std::chrono::hours(1));
        }
        if (mood_ == "talkative") {
            std::printf("said by printf\n");
            if (std::system("echo said by a child") != 0) throw std::runtime_error("no shell");
        }
        if (mood_ == "mad") return {Value("no observation"), 0, false, false, {}};
        drawn_ ^= static_cast<std::uint32_t>(small_ ? action.to<int>() : action[0].to<int>());
        const double push = small_ ? 0 : double(action[1].as<float>()[0]);
        ++steps_;
        const double reward = mood_ == "nan" ? std::nan("") : push + drawn_ % 8;
        return {observed(), reward, steps_ == 20, false, Value::dict({{"steps", steps_}})};
    }

    const std::string& mood() const { return mood_; }
    Value render() const { return "step " + std::to_string(steps_); }

private:
    std::uint32_t draw() { return drawn_ = drawn_ * 1664525 + 1013904223; }

    Value observed() {
        const auto place = static_cast<int>(draw() >> 8U) % 1000;
        if (small_) return place;
        std::vector<std::uint8_t> seen(4);
        for (auto& each : seen) each = static_cast<std::uint8_t>(draw() >> 24U);
        // Flat, though the space has two axes.
        std::vector<float> speed(6);
        for (auto& each : speed) each = static_cast<float>((draw() >> 8U) / 8388608.0 - 1);
        return Value::dict(
            {{"speed", Value::array(speed)}, {"seen", Value::array(seen)}, {"place", place}});
    }

    std::uint32_t drawn_ = 1;
    int steps_ = 0;
    bool small_ = false;
    std::string mood_{};
};

void report(ProvidedEnv& provided) {
    provided.log = [](const std::string& line) { print({{"log", line}}); };
    provided.on_agent = [] { print({{"agent", true}}); };
    provided.on_agent_gone = [] { print({{"agent", false}}); };
}

int twin(const std::string& how, const std::string& url, const std::string& name,
         const std::string& dialect) {
    Twin env;
    std::thread thinking;
    ProvidedEnv provided(name, Twin::observations(), Twin::actions());
    provided.capabilities = {"seed", "options", "pause"};
    provided.render_modes = {"ansi"};
    provided.replace = std::getenv("PROVIDER_REPLACE") != nullptr;
    provided.dialect = dialect == "binary" ? Dialect::binary : Dialect::json;
    provided.init = [&](const InitAsked& requested) { return env.init(requested); };
    provided.reset = [&](const ResetAsked& requested) { return env.reset(requested); };
    provided.step = [&](const Value& action, Reply<StepGiven> reply) {
        if (env.mood() == "silent") return;
        if (env.mood() == "tired") return reply.fail("not now", "invalid-action");
        if (env.mood() != "slow") return reply(env.step(action));
        // By another thread, while this one waits for messages.
        if (thinking.joinable()) thinking.join();
        thinking = std::thread([&env, action, later = std::move(reply)]() mutable {
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            later(env.step(action));
        });
    };
    provided.render = [&] { return env.render(); };
    report(provided);
    Provider provider(url, std::move(provided));
    std::thread reading;
    if (url != "stdio:") {
        reading = std::thread([&] {
            std::string line;
            std::getline(std::cin, line);
            provider.stop();
        });
    }
    try {
        if (how == "run") provider.run();
        while (how == "poll" && provider.poll())
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (provider.refusal()) print({{"refused", provider.refusal()->code()}});
    } catch (const ApiError& error) {
        print({{"thrown", error.code()}});
    }
    if (reading.joinable()) reading.join();
    if (thinking.joinable()) thinking.join();
    return 0;
}

// How a loop kept its frames.
struct Frames {
    static constexpr std::chrono::microseconds length{16667};
    Clock::time_point next = Clock::now();
    int count = 0;
    int missed = 0;   // frames that began when the next one was due
    int slow = 0;     // works that took 4 ms or longer,
    int busy = 0;     // and such without the processor time of others
    double longest_ms = 0;

    static double worked_ms() {
        timespec time{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
    }

    template <class Work>
    void frame(Work work) {
        next += length;
        std::this_thread::sleep_until(next);
        const auto begin = Clock::now();
        if (begin - next > length) {
            missed += static_cast<int>((begin - next) / length);
            next = begin;
        }
        const double worked = worked_ms();
        work();
        busy += worked_ms() - worked >= 4;
        const double took = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
        longest_ms = std::max(longest_ms, took);
        slow += took >= 4;
        ++count;
    }

    Json outcome() const {
        return {{"count", count}, {"missed", missed}, {"slow", slow}, {"busy", busy},
                {"longest_ms", longest_ms}};
    }
};

int game(const std::string& url, const std::string& name, int later) {
    ProvidedEnv provided(name, spaces::discrete(1000000), spaces::discrete(2));
    Reply<StepGiven> owed;
    int left = 0;
    int steps = 0;
    provided.capabilities = {"pause"};
    provided.reset = [&](const ResetAsked&) { return Reset{steps = 0, {}}; };
    provided.step = [&](const Value&, Reply<StepGiven> reply) {
        owed = std::move(reply);
        left = later;
    };
    report(provided);
    Provider provider(url, std::move(provided));
    std::atomic<bool> over{false};
    std::thread reading([&] {
        std::string line;
        std::getline(std::cin, line);
        over = true;
    });
    // Delays of the machine in a game that does not call the provider.
    Frames alone;
    std::thread other([&] {
        volatile double number = 0;
        while (!over) alone.frame([&] { for (int i = 0; i < 20000; ++i) number = number + i; });
    });
    Frames frames;
    while (!over) {
        frames.frame([&] {
            if (owed && left-- <= 0) owed(Step{++steps, 1.0, false, false, {}});
            provider.poll();
        });
    }
    other.join();
    reading.join();
    provider.stop();
    provider.poll();
    print({{"frames", frames.outcome()}, {"alone", alone.outcome()}});
    return 0;
}

}  // namespace

int main(int count, char** words) {
    const std::vector<std::string> given(words + 1, words + count);
    if (given.size() != 4) return 2;
    if (given[0] == "game") return game(given[1], given[2], std::stoi(given[3]));
    return twin(given[0], given[1], given[2], given[3]);
}
