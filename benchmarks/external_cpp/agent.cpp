// An agent of an external environment; prints how fast it stepped.
//
// Usage: agent stream URL ENV_ID SECONDS
//        agent zeromq tcp://HOST:PORT LIBZMQ SECONDS
//
// The first steps by the C++ client over a stream. The second requests steps from Tango's
// gateway, by the libzmq of that path. Both take little time besides. The program prints a
// line when it begins. At the end it prints the steps per second, with resets where they
// are due, and the median and 99th percentile of a step's microseconds, without resets.

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <gym_http_client/stream.hpp>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int warming = 300;
constexpr double wait_s = 20;

class StreamAgent {
public:
    StreamAgent(const std::string& url, const std::string& env_id)
        : env_(url, env_id, options()) {}

    void reset() { env_.reset(); }
    bool step(int action) { return env_.step(gym_http::Value(std::int64_t(action))).done(); }
    void close() {}

private:
    static gym_http::EnvOptions options() {
        gym_http::EnvOptions options;
        options.wait_s = wait_s;
        return options;
    }

    gym_http::StreamEnv env_;
};

class TangoAgent {
public:
    TangoAgent(const std::string& door, const std::string& library)
        : library_(::dlopen(library.c_str(), RTLD_NOW)) {
        if (!library_) throw std::runtime_error(::dlerror());
        find(send_, "zmq_send");
        find(receive_, "zmq_recv");
        void* (*context)();
        void* (*socket)(void*, int);
        int (*connect)(void*, const char*);
        find(context, "zmq_ctx_new");
        find(socket, "zmq_socket");
        find(connect, "zmq_connect");
        constexpr int request = 3;
        socket_ = socket(context(), request);
        if (connect(socket_, door.c_str())) throw std::runtime_error("no gateway at " + door);
    }

    void reset() { request("{\"type\": \"reset\", \"seed\": null, \"options\": null}"); }

    bool step(int action) {
        const std::string answer =
            request("{\"type\": \"action\", \"action\": \"" + std::to_string(action) + "\"}");
        return answer.find("\"terminated\":true") != std::string::npos;
    }

    void close() { request("{\"type\": \"close\"}"); }

private:
    template <class Function>
    void find(Function& function, const char* name) {
        function = reinterpret_cast<Function>(::dlsym(library_, name));
        if (!function) throw std::runtime_error(::dlerror());
    }

    std::string request(const std::string& message) {
        send_(socket_, message.data(), message.size(), 0);
        char data[4096];
        const int size = receive_(socket_, data, sizeof data, 0);
        if (size < 0) throw std::runtime_error("the gateway does not answer");
        if (static_cast<std::size_t>(size) > sizeof data)
            throw std::runtime_error("an answer has " + std::to_string(size) + " bytes");
        return std::string(data, static_cast<std::size_t>(size));
    }

    void* library_;
    void* socket_ = nullptr;
    int (*send_)(void*, const void*, std::size_t, int) = nullptr;
    int (*receive_)(void*, void*, std::size_t, int) = nullptr;
};

template <class Agent>
void run(Agent agent, double seconds) {
    using Clock = std::chrono::steady_clock;
    const std::chrono::duration<double> whole(seconds);
    agent.reset();
    for (int step = 0; step < warming; ++step)
        if (agent.step(step % 2)) agent.reset();
    std::cout << "stepping" << std::endl;
    std::vector<double> took;
    const Clock::time_point begin = Clock::now();
    Clock::time_point now = begin;
    for (int step = 0; now - begin < whole; ++step) {
        const bool over = agent.step(step % 2);
        const Clock::time_point then = now;
        now = Clock::now();
        took.push_back(std::chrono::duration<double, std::micro>(now - then).count());
        if (over) {
            agent.reset();
            now = Clock::now();
        }
    }
    const double rate = took.size() / std::chrono::duration<double>(now - begin).count();
    agent.close();
    if (took.empty()) throw std::runtime_error("there was no time for a step");
    std::sort(took.begin(), took.end());
    std::cout << rate << " " << took[took.size() / 2] << " " << took[took.size() * 99 / 100]
              << std::endl;
}

}  // namespace

int main(int count, char** words) {
    const std::string kind = count == 5 ? words[1] : "";
    try {
        if (kind == "stream") {
            run(StreamAgent(words[2], words[3]), std::stod(words[4]));
        } else if (kind == "zeromq") {
            run(TangoAgent(words[2], words[3]), std::stod(words[4]));
            // Its context is not destroyed, since that could wait.
            std::_Exit(0);
        } else {
            std::cerr << "usage: agent stream URL ENV_ID SECONDS | "
                         "agent zeromq tcp://HOST:PORT LIBZMQ SECONDS\n";
            return 2;
        }
    } catch (const std::exception& error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
