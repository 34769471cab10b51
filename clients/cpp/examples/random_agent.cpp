// Plays one episode of an environment, at random.
//
// Usage: random_agent [URL [ENV_ID [SEED]]]
#include <gym_http_client.hpp>
#include <iostream>
#include <random>

int main(int count, char** words) {
    const std::string url = count > 1 ? words[1] : "http://127.0.0.1:5000";
    const std::string env_id = count > 2 ? words[2] : "CartPole-v1";
    const unsigned seed = count > 3 ? static_cast<unsigned>(std::stoul(words[3])) : 0;
    try {
        gym_http::Env env(url, env_id);
        std::mt19937 generator(seed);
        const gym_http::Space& actions = env.action_space();
        env.reset(seed);
        double total = 0;
        int steps = 0;
        for (bool done = false; !done; ++steps) {
            const gym_http::Step step = env.step(actions.sample(generator));
            total += step.reward;
            done = step.done();
        }
        std::cout << "return " << total << " in " << steps << " steps\n";
    } catch (const gym_http::Error& error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
