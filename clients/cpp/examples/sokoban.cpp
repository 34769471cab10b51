// Plays a level of examples/sokoban, a game in a page, by a solution that is known.
//
// Usage: sokoban URL LEVEL MOVES
//
// Moves are letters, as players of Sokoban write them: u, d, l and r.
#include <cstdio>
#include <gym_http_client.hpp>
#include <iostream>

int main(int count, char** words) {
    if (count != 4) {
        std::cerr << "usage: sokoban URL LEVEL MOVES\n";
        return 2;
    }
    try {
        gym_http::EnvOptions options;
        options.kwargs = {{"fast", true}};
        gym_http::Env env(std::string(words[1]), "external/sokoban", options);
        const int level = std::stoi(words[2]);
        env.reset({}, {{"level", level}});
        double total = 0;
        int steps = 0;
        bool solved = false;
        for (const char move : std::string(words[3])) {
            const auto action = std::string("udlr").find(move);
            if (action == std::string::npos)
                throw gym_http::UsageError(std::string("no move: ") + move);
            const gym_http::Step step = env.step(action);
            total += step.reward;
            solved = step.terminated;
            ++steps;
        }
        std::printf("level %d: return %.1f in %d steps, %s\n", level, total, steps,
                    solved ? "solved" : "not solved");
    } catch (const std::exception& error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
