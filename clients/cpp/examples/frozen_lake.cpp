// Learns FrozenLake by tabular Q-learning, then shows that it has: the agent has to reach
// the goal in 65 of 100 episodes on the slippery ice, where the best there is reaches it in
// about 74. Exits with 1 if it does not.
//
// Usage: frozen_lake [URL]
#include <array>
#include <gym_http_client/stream.hpp>
#include <iostream>

namespace {

constexpr std::size_t states = 16;
constexpr std::size_t actions = 4;
constexpr int training_episodes = 1000;
constexpr int test_episodes = 100;
constexpr int goal = 65;

// A generator of the example's own (xorshift64*): the standard library's distributions
// differ from one library to the next.
class Dice {
public:
    explicit Dice(std::uint64_t seed) : state_(seed) {}

    double fraction() {
        state_ ^= state_ >> 12U;
        state_ ^= state_ << 25U;
        state_ ^= state_ >> 27U;
        return static_cast<double>(state_ * 0x2545f4914f6cdd1dULL >> 11U) * 0x1p-53;
    }

    std::size_t below(std::size_t sides) {
        return static_cast<std::size_t>(fraction() * static_cast<double>(sides));
    }

private:
    std::uint64_t state_;
};

class Table {
public:
    // The best known action; of equals any, or nothing would ever be tried.
    std::size_t best(std::size_t state, Dice& dice) const {
        const auto& row = values_[state];
        std::size_t best = dice.below(actions);
        for (std::size_t action = 0; action < actions; ++action) {
            if (row[action] > row[best]) best = action;
        }
        return best;
    }

    void learn(std::size_t state, std::size_t action, double reward, std::size_t next,
               bool terminated, double rate) {
        const auto& row = values_[next];
        const double after = terminated ? 0 : *std::max_element(row.begin(), row.end());
        double& value = values_[state][action];
        value += rate * (reward + 0.99 * after - value);
    }

private:
    std::array<std::array<double, actions>, states> values_{};
};

// Plays an episode and returns its return; learns if it explores.
double play(gym_http::Env& env, Table& table, Dice& dice, double exploring, double rate) {
    auto state = env.reset().observation.to<std::size_t>();
    while (true) {
        const std::size_t action =
            dice.fraction() < exploring ? dice.below(actions) : table.best(state, dice);
        const gym_http::Step step = env.step(action);
        const auto next = step.observation.to<std::size_t>();
        if (rate > 0) table.learn(state, action, step.reward, next, step.terminated, rate);
        if (step.done()) return step.reward;
        state = next;
    }
}

int run(const std::string& url) {
    gym_http::StreamEnv env(url, "FrozenLake-v1");
    env.reset(7);
    Dice dice(7);
    Table table;
    for (int episode = 0; episode < training_episodes; ++episode) {
        const double left = 1 - static_cast<double>(episode) / training_episodes;
        play(env, table, dice, left * left, 0.03 + 0.3 * left);
    }
    double reached = 0;
    for (int episode = 0; episode < test_episodes; ++episode)
        reached += play(env, table, dice, 0, 0);
    std::cout << "reached the goal in " << reached << " of " << test_episodes
              << " episodes; " << goal << " were due\n";
    return reached >= goal ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
    try {
        return run(count > 1 ? words[1] : "http://127.0.0.1:5000");
    } catch (const gym_http::Error& error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
