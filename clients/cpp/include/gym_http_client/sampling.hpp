/// @file
/// Elements of spaces, drawn with the caller's generator.
#ifndef GYM_HTTP_CLIENT_SAMPLING_HPP
#define GYM_HTTP_CLIENT_SAMPLING_HPP

#include <random>

#include "gym_http_client/stacking.hpp"

namespace gym_http {

namespace detail {

/// Draws numbers, with the same results in every standard library.
template <class Generator>
class Dice {
public:
    explicit Dice(Generator& generator) : generator_(generator) {}

    std::uint64_t bits() {
        constexpr auto low = (Generator::min)();
        constexpr auto high = (Generator::max)();
        if constexpr (low == 0 && high == ~std::uint64_t(0)) {
            return generator_();
        } else if constexpr (low == 0 && high == ~std::uint32_t(0)) {
            const std::uint64_t first = generator_();
            return first << 32U | generator_();
        } else {
            return std::uniform_int_distribution<std::uint64_t>()(generator_);
        }
    }

    /// From 0 to `most`.
    std::uint64_t up_to(std::uint64_t most) {
        if (most == ~std::uint64_t(0)) return bits();
        const std::uint64_t sides = most + 1;
        const std::uint64_t fair = ~std::uint64_t(0) - (~std::uint64_t(0) % sides + 1) % sides;
        std::uint64_t drawn = bits();
        while (drawn > fair) drawn = bits();
        return drawn % sides;
    }

    /// From 0 on, below 1.
    double fraction() { return static_cast<double>(bits() >> 11U) * 0x1p-53; }

    double exponential() { return -std::log1p(-fraction()); }

    double normal() {
        const double radius = std::sqrt(2 * exponential());
        return radius * std::cos(6.283185307179586 * fraction());
    }

private:
    Generator& generator_;
};

inline Number clipped(const Number& number, const Number& low, const Number& high) {
    if (!at_most(low, number)) return low;
    return at_most(number, high) ? number : high;
}

inline Number limit_of(const Dtype& dtype, bool highest) {
    const std::size_t bits = 8 * dtype.item_size;
    if (dtype.kind == 'i') {
        const std::uint64_t top = ~std::uint64_t(0) >> (65 - bits);
        return Number(highest ? static_cast<std::int64_t>(top)
                              : -static_cast<std::int64_t>(top) - 1);
    }
    return Number(highest ? ~std::uint64_t(0) >> (64 - bits) : std::uint64_t(0));
}

/// An integer so far above another one.
inline Number above(const Number& low, std::uint64_t distance) {
    if (!low.negative) return Number(low.magnitude + distance);
    if (distance >= low.magnitude) return Number(distance - low.magnitude);
    Number number = low;
    number.magnitude -= distance;
    return number;
}

inline std::uint64_t distance(const Number& low, const Number& high) {
    const std::uint64_t from = low.negative ? 0 - low.magnitude : low.magnitude;
    const std::uint64_t to = high.negative ? 0 - high.magnitude : high.magnitude;
    return to - from;
}

inline Number integer_near(double real) {
    if (real >= 0x1p63) return Number(std::numeric_limits<std::int64_t>::max());
    if (real < -0x1p63) return Number(std::numeric_limits<std::int64_t>::min());
    return Number(static_cast<std::int64_t>(real));
}

template <class Generator>
Number draw(const spaces::Box& box, std::size_t at, Dice<Generator>& dice) {
    const Number &low = box.low[at], &high = box.high[at];
    const bool below = box.bounded_below[at].magnitude != 0;
    const bool above_too = box.bounded_above[at].magnitude != 0;
    if (box.dtype.kind != 'f') {
        if (below && above_too) return above(low, dice.up_to(distance(low, high)));
        const double real = below       ? low.rounded() + dice.exponential()
                            : above_too ? high.rounded() - dice.exponential()
                                        : dice.normal();
        return clipped(integer_near(std::floor(real)), limit_of(box.dtype, false),
                       limit_of(box.dtype, true));
    }
    if (below && above_too) {
        const double part = dice.fraction();
        // Not by the difference of the bounds, which may be beyond all floats.
        const Number number(low.real * (1 - part) + high.real * part);
        return clipped(rounded_to(box.dtype, number), low, high);
    }
    if (below) return rounded_to(box.dtype, Number(low.real + dice.exponential()));
    if (above_too) return rounded_to(box.dtype, Number(high.real - dice.exponential()));
    return rounded_to(box.dtype, Number(dice.normal()));
}

template <class Draw>
Value drawn_array(const Dtype& dtype, const Shape& shape, Draw draw) {
    const std::size_t count = count_of(shape, std::size_t(1) << 40U);
    Bytes content(count * dtype.item_size);
    for (std::size_t at = 0; at < count; ++at)
        store(dtype, draw(at), content.data() + at * dtype.item_size);
    return Value::array(dtype.name, shape, std::move(content));
}

template <class Generator>
Value::Items sample_many(const Space& space, std::size_t count, Generator& generator) {
    Value::Items items;
    items.reserve(count);
    for (std::size_t each = 0; each < count; ++each) items.push_back(space.sample(generator));
    return items;
}

/// Draws elements of each kind of space.
template <class Generator>
struct Sampler {
    Generator& generator;
    Dice<Generator> dice{generator};

    Value operator()(const spaces::Discrete& space) {
        const Number drawn = above(space.start, dice.up_to(space.n - 1));
        Bytes content(space.dtype.item_size);
        store(space.dtype, drawn, content.data());
        return Value::scalar(space.dtype.name, std::move(content));
    }
    Value operator()(const spaces::Box& space) {
        return drawn_array(space.dtype, space.shape,
                           [&](std::size_t at) { return draw(space, at, dice); });
    }
    Value operator()(const spaces::MultiBinary& space) {
        return drawn_array(Dtype::read("|i1"), space.shape,
                           [&](std::size_t) { return Number(dice.up_to(1)); });
    }
    Value operator()(const spaces::MultiDiscrete& space) {
        return drawn_array(space.dtype, space.shape, [&](std::size_t at) {
            return above(space.start[at], dice.up_to(space.nvec[at].magnitude - 1));
        });
    }
    Value operator()(const spaces::Text& space) {
        const auto length = space.min_length + dice.up_to(space.max_length - space.min_length);
        std::string text;
        if (space.characters.empty()) return Value(text);
        for (std::uint64_t each = 0; each < length; ++each)
            text += space.characters[dice.up_to(space.characters.size() - 1)];
        return Value(text);
    }
    Value operator()(const spaces::Dict& space) {
        Value::Members members;
        for (const auto& [key, member] : space.spaces)
            members.emplace_back(key, member.sample(generator));
        return Value::dict(std::move(members));
    }
    Value operator()(const spaces::Tuple& space) {
        Value::Items items;
        for (const Space& member : space.spaces) items.push_back(member.sample(generator));
        return Value::tuple(std::move(items));
    }
    Value operator()(const spaces::OneOf& space) {
        const auto chosen = dice.up_to(space.spaces.size() - 1);
        return Value::tuple({Value::scalar(static_cast<std::int64_t>(chosen)),
                             space.spaces[chosen].sample(generator)});
    }
    Value operator()(const spaces::Sequence& space) {
        std::size_t length = 1;
        while (dice.fraction() >= 0.25) ++length;
        auto items = sample_many(*space.space, length, generator);
        return space.stack ? stacked(*space.space, items) : Value::tuple(std::move(items));
    }
    Value operator()(const spaces::Graph& space) {
        constexpr std::size_t nodes = 10;
        const std::size_t edges = dice.up_to(nodes * (nodes - 1) - 1);
        Value drawn = stacked(*space.node_space, sample_many(*space.node_space, nodes, generator));
        if (edges == 0 || !space.edge_space) return Value::graph(std::move(drawn), {}, {});
        Value links = drawn_array(Dtype::read("<i4"), {edges, 2},
                                  [&](std::size_t) { return Number(dice.up_to(nodes - 1)); });
        return Value::graph(
            std::move(drawn),
            stacked(*space.edge_space, sample_many(*space.edge_space, edges, generator)),
            std::move(links));
    }
    Value operator()(const spaces::Opaque& space) {
        space.refuse("sample", "call sample_action() of the environment, or send GET "
                               ".../observation_space/sample");
    }
};

}  // namespace detail

namespace spaces {

template <class Generator>
Value Space::sample(Generator& generator) const {
    return std::visit(gym_http::detail::Sampler<Generator>{generator}, variant());
}

}  // namespace spaces

}  // namespace gym_http

#endif
