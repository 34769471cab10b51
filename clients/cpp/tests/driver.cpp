// The driver that every client has, with the same command line; tests/conformance/README.md
// describes it.
#include <chrono>

#include "conformance.hpp"
#include "conversations.hpp"

namespace {

using namespace gym_http;

// The client's type of a value.
std::string word_for(const Value& value) {
    switch (value.kind()) {
        case Kind::none: return "Kind::none";
        case Kind::boolean: return "bool";
        case Kind::integer: return "std::int64_t";
        case Kind::big_integer: return "std::string of digits";
        case Kind::real: return "double";
        case Kind::text:
        case Kind::autoreset: return "std::string";
        case Kind::bytes: return "span<const unsigned char>";
        case Kind::dict: return "Value::Members";
        case Kind::array:
            return "span<const " +
                   (value.dtype().spelt().empty() ? "unsigned char" : value.dtype().spelt()) + ">";
        case Kind::scalar:
            return value.dtype().spelt().empty() ? "span<const unsigned char>"
                                                 : value.dtype().spelt();
        case Kind::space: return "Json";
        case Kind::complex: return "std::complex<double>";
        case Kind::unsent: return "Unsent";
        default: return "Value::Items";
    }
}

int show(const std::string& folder) {
    const Json outcome = conformance::read_file(folder + "/values.json");
    for (const Json& each : outcome["cases"]) {
        const Value value = each["binary"].is_string()
                                ? read_binary(models::unhex(each["binary"]))
                                : read_typed_json(each["typed"].get<std::string>());
        std::cout << each["id"].get<std::string>() << "\t" << word_for(value) << "\n";
    }
    return 0;
}

template <class T>
std::string hex_of(T number) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &number, sizeof(T));
    return models::hex(std::string(bytes, bytes + sizeof(T)));
}

std::string hex_of_observation(const Value& value) {
    if (value.kind() == Kind::array) return models::hex(value.raw());
    if (value.kind() == Kind::scalar && value.dtype().kind == 'f')
        return hex_of(value.to<double>());
    if (value.kind() == Kind::scalar || value.kind() == Kind::integer)
        return hex_of(value.to<std::int64_t>());
    if (value.kind() == Kind::boolean) return hex_of(std::int64_t(value.to<bool>()));
    if (value.kind() == Kind::real) return hex_of(value.to<double>());
    if (value.kind() == Kind::text) return models::hex(value.text());
    std::string joined;
    const auto add = [&](const Value& part) {
        joined += (joined.empty() ? "" : ",") + hex_of_observation(part);
    };
    if (value.kind() == Kind::dict) {
        for (const auto& member : value.members()) add(member.second);
    } else {
        for (const Value& part : value.items()) add(part);
    }
    return joined;
}

// Short timeouts: requests are repeated soon on a bad network.
Server impatient(const std::string& url) {
    Server server(url);
    server.try_timeout_s = 2;
    return server;
}

template <class E>
int agree(const std::string& url, const std::string& env_id, const std::string& seed,
          const std::string& actions) {
    E env = env_id[0] == '@' ? E::attach(impatient(url), env_id.substr(1))
                             : E(impatient(url), env_id);
    const auto begin = [&](std::optional<std::uint64_t> with) {
        std::cout << "reset " << hex_of_observation(env.reset(with).observation) << "\n";
    };
    begin(std::stoull(seed));
    std::ifstream lines(actions);
    for (std::string line; std::getline(lines, line);) {
        if (line.empty()) continue;
        const Step step = env.step(Json::parse(line));
        std::cout << hex_of_observation(step.observation) << " " << hex_of(step.reward) << " "
                  << step.terminated << " " << step.truncated << "\n";
        if (step.done()) begin({});
    }
    env.close();
    return 0;
}

void notify(const char* kind, const Error& error) {
    std::cout << "error kind=" << kind << " status="
              << (error.status() == 0 ? "-" : std::to_string(error.status()))
              << " code=" << (error.code().empty() ? "-" : error.code())
              << " url=" << (error.url().empty() ? "-" : error.url())
              << " message=" << Json(error.message()).dump() << "\n";
}

template <class Use>
int outcome(const Use& use) {
    try {
        use();
        std::cout << "ok\n";
    } catch (const TransportError& error) {
        notify("transport", error);
    } catch (const ApiError& error) {
        notify("api", error);
    } catch (const ProtocolError& error) {
        notify("protocol", error);
    }
    return 0;
}

template <class E>
int probe(const std::string& url, double timeout_s) {
    return outcome([&] {
        Server server(url);
        server.timeout_s = timeout_s;
        E env(server, "CartPole-v1");
        env.reset(1);
        env.step(0);
        env.step(0);
        env.close();
    });
}

int create(const std::string& url, const std::string& env_id, double wait_s,
           double timeout_s) {
    return outcome([&] {
        Server server(url);
        server.timeout_s = timeout_s;
        server.try_timeout_s = std::min(server.try_timeout_s, timeout_s);
        EnvOptions options;
        options.wait_s = wait_s;
        Env(server, env_id, options).close();
    });
}

template <class E>
int bench(const std::string& url, double seconds) {
    using Clock = std::chrono::steady_clock;
    E env(url, "CartPole-v1");
    env.reset(1);
    const auto begin = Clock::now();
    std::chrono::duration<double> spent{};
    std::int64_t steps = 0;
    for (; spent.count() < seconds; spent = Clock::now() - begin) {
        // As it is, like the Python client's: nothing has to be cast.
        if (env.step(Value(steps % 2)).done()) env.reset();
        ++steps;
    }
    std::cout << static_cast<double>(steps) / spent.count() << "\n";
    return 0;
}

int run(const std::vector<std::string>& words) {
    const std::string command = words.empty() ? "" : words[0];
    const auto word = [&](std::size_t at) { return words.size() > at ? words[at] : ""; };
    if (command == "conformance" && words.size() >= 2) {
        std::string url;
        std::string only;
        for (std::size_t at = 2; at < words.size(); ++at) {
            if (words[at] == "--only")
                only = word(++at);
            else
                url = words[at];
        }
        return conformance::run(words[1], url, only);
    }
    if (command == "show" && words.size() == 2) return show(words[1]);
    if (command == "agree" && words.size() == 6)
        return words[4] == "rest" ? agree<Env>(words[1], words[2], words[3], words[5])
                                  : agree<StreamEnv>(words[1], words[2], words[3], words[5]);
    if (command == "probe" && words.size() >= 3) {
        const double timeout_s = words.size() > 3 ? std::stod(words[3]) : 60;
        return words[2] == "rest" ? probe<Env>(words[1], timeout_s)
                                  : probe<StreamEnv>(words[1], timeout_s);
    }
    if (command == "create" && words.size() >= 4)
        return create(words[1], words[2], std::stod(words[3]),
                      words.size() > 4 ? std::stod(words[4]) : 60);
    if (command == "bench" && words.size() == 4)
        return words[2] == "rest" ? bench<Env>(words[1], std::stod(words[3]))
                                  : bench<StreamEnv>(words[1], std::stod(words[3]));
    if (command == "converse" && words.size() == 2) return conversations::run(words[1]);
    std::cerr << "usage: driver conformance|show|agree|probe|bench|converse …\n";
    return 2;
}

}  // namespace

int main(int count, char** words) {
    try {
        return run({words + 1, words + count});
    } catch (const std::exception& error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
