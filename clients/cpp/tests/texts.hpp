// Values and spaces as JSON and as text, and URLs: tests without a server.
#ifndef GYM_HTTP_TESTS_TEXTS_HPP
#define GYM_HTTP_TESTS_TEXTS_HPP

#include <gym_http_client.hpp>
#include <sstream>

#include "checks.hpp"

namespace texts {

using namespace gym_http;

template <class Made>
void check_prints(const Made& made, const std::string& expected) {
    std::ostringstream out;
    out << made;
    check(out.str() == expected && to_string(made) == expected,
          (expected + ": " + out.str()).c_str());
}

inline void json_of_values() {
    const Value grid = Value::array(std::vector<float>{0.1F, 1, -2, 3}, {2, 2});
    const Value tree = Value::dict({{"a", Value::tuple({grid, Value()})}, {7, true}});
    check(to_json(tree).dump() == R"({"a":[[[0.1,1.0],[-2.0,3.0]],null],"7":true})",
          "JSON of a tree");
    check(to_json(Value::scalar(std::uint64_t(1) << 63U)).dump() == "9223372036854775808",
          "a scalar");
    check(to_json(Value::array(std::vector<bool>{true, false})).dump() == "[true,false]", "bools");
    check(to_json(Value()).is_null(), "None is null");
    const double nan = std::nan("");
    for (const Value& unsendable : {Value::bytes({1}), Value(nan), Value::scalar(nan),
                                Value::space(Json()), Value::graph({}, {}, {}),
                                Value::list({Value::bytes({1})}),
                                Value::array(std::vector<std::complex<double>>(1))})
        check_throws<UsageError>([&] { to_json(unsendable); }, "values without JSON are refused");
}

inline void printed_values() {
    check_prints(Value(), "None");
    check_prints(Value::list({true, -3, 0.5, "a\"b", Value(HUGE_VAL)}),
                 R"([True, -3, 0.5, "a\"b", inf])");
    check_prints(Value::dict({{"p", Value::tuple({1})}, {2, Value::bytes({1, 2})}}),
                 R"({"p": (1,), 2: bytes(2)})");
    check_prints(Value::array(std::vector<float>{0.1F, 2}), "array([0.1, 2.0], (2,), float32)");
    check_prints(Value::array(std::vector<std::uint8_t>(12, 7), {3, 4}),
                 "array([7, 7, 7, 7, 7, 7, 7, 7, ...], (3, 4), uint8)");
    check_prints(Value::scalar(true), "bool(True)");
    check_prints(Value::array(std::vector<std::complex<double>>(1)), "array([...], (1,), <c16)");
    check_prints(Value::space({{"type", "Discrete"}, {"n", 3}}), "Discrete(3)");
    check_prints(Value::space("none"), "space(...)");
    check_prints(Value::autoreset("NextStep"), "AutoresetMode.NextStep");
    check_prints(Value(std::complex<double>(1, -0.5)), "complex(1.0, -0.5)");
    check_prints(Value(Unsent{"{1, 2}", "set"}), "{1, 2}");
}

// As Gymnasium prints them; of bounds that differ it pads the columns as well.
inline void printed_spaces() {
    using namespace spaces;
    const auto inner = std::make_shared<Space>(discrete(2));
    check_prints(Space(discrete(2)), "Discrete(2)");
    check_prints(discrete(2, -1), "Discrete(2, start=-1)");
    check_prints(box(-1, 1, {3}), "Box(-1.0, 1.0, (3,), float32)");
    check_prints(box(-HUGE_VAL, HUGE_VAL, {2, 4}), "Box(-inf, inf, (2, 4), float32)");
    check_prints(read_space({{"type", "Box"}, {"dtype", "float32"}, {"shape", {2}},
                             {"low", {-4.8, "-inf"}}, {"high", {4.8, "inf"}}}),
                 "Box([-4.8 -inf], [4.8 inf], (2,), float32)");
    check_prints(MultiBinary{{3}, true}, "MultiBinary(3)");
    check_prints(MultiBinary{{2, 3}, false}, "MultiBinary((2, 3))");
    check_prints(read_space({{"type", "MultiDiscrete"}, {"nvec", {3, 2}}}), "MultiDiscrete([3 2])");
    check_prints(read_space({{"type", "MultiDiscrete"}, {"nvec", {3, 2}}, {"start", {1, 1}}}),
                 "MultiDiscrete([3 2], start=[1 1])");
    check_prints(Text{1, 5, {"a", "b"}}, "Text(1, 5, charset=ab)");
    check_prints(Dict{{{"a", discrete(2)}, {4, discrete(3)}}, true},
                 "Dict('a': Discrete(2), 4: Discrete(3))");
    check_prints(Tuple{{discrete(2), discrete(3)}}, "Tuple(Discrete(2), Discrete(3))");
    check_prints(OneOf{{discrete(2)}}, "OneOf(Discrete(2))");
    check_prints(Sequence{inner, false}, "Sequence(Discrete(2), stack=False)");
    check_prints(Graph{inner, nullptr}, "Graph(Discrete(2), None)");
}

inline void addresses() {
    const std::pair<const char*, const char*> pairs[] = {
        {"localhost:5000",
         "\"localhost:5000\" is no address of a server: \"http://localhost:5000\" would be"},
        {"ftp://me:secret@there/x",
         "\"ftp://there/x\" is no address of a server: \"http://there/x\" would be"},
        {"CartPole-v1",
         "\"CartPole-v1\" is no address of a server, but the name of an environment: the address "
         "comes first, as in Env(\"http://127.0.0.1:5000\", \"CartPole-v1\")"},
        {"external/game",
         "\"external/game\" is no address of a server, but the name of an environment: the "
         "address comes first, as in Env(\"http://127.0.0.1:5000\", \"external/game\")"},
        {"pole-v1.example.org:5000",
         "\"pole-v1.example.org:5000\" is no address of a server: "
         "\"http://pole-v1.example.org:5000\" would be"},
        {"", "\"\" is no address of a server: \"http://127.0.0.1:5000\" would be"}};
    for (const auto& [wrong, outcome] : pairs) {
        try {
            const Server server(wrong);
            check(false, wrong);
        } catch (const UsageError& error) {
            check(error.message() == outcome, error.what());
        }
    }
}

}  // namespace texts

#endif
