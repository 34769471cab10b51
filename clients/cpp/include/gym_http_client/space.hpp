/// @file
/// Spaces of actions and observations.
#ifndef GYM_HTTP_CLIENT_SPACE_HPP
#define GYM_HTTP_CLIENT_SPACE_HPP

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gym_http_client/value.hpp"

namespace gym_http::spaces {

struct Space;
/// A space within another one.
using Inner = std::shared_ptr<const Space>;

/// A number for each element of an array, or one for all of them.
struct Numbers {
    std::vector<Number> outcome{};  ///< A single one goes for all.

    /// That of an element.
    const Number& operator[](std::size_t element) const {
        return outcome.size() == 1 ? outcome.front() : outcome[element];
    }
};

/// Arrays between bounds.
struct Box {
    Dtype dtype = Dtype::read("<f4");  ///< Of the elements.
    Shape shape{};                     ///< Of the arrays.
    Numbers low{};                     ///< Bounds from below.
    Numbers high{};                    ///< Bounds from above.
    Numbers bounded_below{};           ///< Whether there is a bound, 1 or 0.
    Numbers bounded_above{};           ///< Whether there is a bound, 1 or 0.
};

/// Integers from `start` on.
struct Discrete {
    std::uint64_t n = 1;               ///< The number of integers.
    Number start{};                    ///< The first of them.
    Dtype dtype = Dtype::read("<i8");  ///< Of samples.
};

/// Arrays of zeros and ones.
struct MultiBinary {
    Shape shape{};       ///< Of the arrays.
    bool is_flat = true;  ///< Whether the shape is described as a single number.
};

/// Arrays of integers, each from a `Discrete` of its own.
struct MultiDiscrete {
    Dtype dtype = Dtype::read("<i8");  ///< Of the elements.
    Shape shape{};                     ///< Of the arrays.
    Numbers nvec{};                    ///< How many integers each element can be.
    Numbers start{};                   ///< The first of them.
};

/// Strings.
struct Text {
    std::uint64_t min_length = 1;           ///< In characters.
    std::uint64_t max_length = 1;           ///< In characters.
    std::vector<std::string> characters{};  ///< Each in UTF-8.
};

/// Dicts with an element of a space under each key.
struct Dict {
    std::vector<std::pair<Value, Space>> spaces{};  ///< In order; keys are str or int.
    bool sort_keys = true;                          ///< As Gymnasium's Dict has it.

    /// The space under a key, or nothing.
    const Space* find(std::string_view key) const;
};

/// Tuples with an element of each space.
struct Tuple {
    std::vector<Space> spaces{};  ///< In order.
};

/// Pairs of an index, and an element of the space with that index.
struct OneOf {
    std::vector<Space> spaces{};  ///< In order.
};

/// Tuples of any length, or their elements stacked in one array.
struct Sequence {
    Inner space{};       ///< Of each element.
    bool stack = false;  ///< Whether they are stacked.
};

/// Graphs.
struct Graph {
    Inner node_space{};  ///< Of each node.
    Inner edge_space{};  ///< Of each edge; empty if edges have no values.
};

/// Values of a class that Gymnasium does not have. Only the server can draw and test them.
struct Opaque {
    std::string class_name{};           ///< As `module:Class`.
    std::optional<std::string> repr{};  ///< As Python prints it.
    Inner base{};                       ///< The nearest of Gymnasium's; its elements may differ.
    Json arguments{};                   ///< Arguments of the class, or null.

    /// @throws UsageError Always: only the server can do this.
    [[noreturn]] void refuse(const std::string& verb, const std::string& request) const {
        throw UsageError("only the server can " + verb + " " + class_name +
                         ", which is no class of Gymnasium's: " + request);
    }
};

/// Any of them: a `std::variant`, for `std::visit` and `std::get_if`.
struct Space : std::variant<Discrete, Box, MultiBinary, MultiDiscrete, Text, Dict, Tuple,
                            OneOf, Sequence, Graph, Opaque> {
    using Variant = std::variant<Discrete, Box, MultiBinary, MultiDiscrete, Text, Dict,
                                 Tuple, OneOf, Sequence, Graph, Opaque>;  ///< The space.
    using Variant::Variant;

    /// The space as one of its kind.
    /// @throws UsageError It is of another kind.
    template <class Kind>
    const Kind& as() const {
        if (const auto* found = std::get_if<Kind>(static_cast<const Variant*>(this)))
            return *found;
        throw UsageError("the space is of another kind: visit it to learn which");
    }

    /// Whether it is of a kind.
    template <class Kind>
    bool is() const {
        return std::holds_alternative<Kind>(static_cast<const Variant&>(*this));
    }

    /// Draws an element: uniformly between bounds, exponentially from a single one on,
    /// normally without any, as in Gymnasium.
    /// @param generator Any uniform random bit generator, such as `std::mt19937`. Its
    ///     samples differ from those of the server's spaces.
    /// @returns An exact value, for `contains` and a step.
    /// @throws UsageError It is `Opaque`, or has such a space in it.
    template <class Generator>
    Value sample(Generator& generator) const;

    /// Whether a value is an element.
    ///
    /// As in Gymnasium, an array's dtype must be safely castable to the space's; nested lists
    /// and plain numbers are converted.
    /// @throws UsageError It is `Opaque`, or has such a space in it.
    bool contains(const Value& value) const;

    /// The variant itself.
    const Variant& variant() const { return *this; }
};

inline const Space* Dict::find(std::string_view key) const {
    for (const auto& [name, space] : spaces) {
        if (name.kind() == Kind::text && name.text() == key) return &space;
    }
    return nullptr;
}

/// A Discrete space of `n` integers.
inline Discrete discrete(std::uint64_t n, std::int64_t start = 0) {
    Discrete space;
    space.n = n;
    space.start = Number(start);
    return space;
}

/// A Box of one lower and one upper bound, which may be infinite.
inline Box box(double low, double high, Shape shape, const std::string& dtype = "<f4") {
    Box space;
    space.dtype = Dtype::read(dtype);
    space.shape = std::move(shape);
    space.low.outcome = {Number(low)};
    space.high.outcome = {Number(high)};
    space.bounded_below.outcome = {Number(std::uint64_t(low > -HUGE_VAL))};
    space.bounded_above.outcome = {Number(std::uint64_t(high < HUGE_VAL))};
    return space;
}

}  // namespace gym_http::spaces

namespace gym_http {
using spaces::Space;
}

#endif
