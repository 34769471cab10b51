/// @file
/// Values and spaces as text, for people to look at.
#ifndef GYM_HTTP_CLIENT_PRINTING_HPP
#define GYM_HTTP_CLIENT_PRINTING_HPP

#include <ostream>

#include "gym_http_client/describing.hpp"

namespace gym_http {

/// A value as text, about as Python prints it; of an array the first 8 elements, the
/// shape and the dtype: `array([0.5, 1.0], (2,), float32)`.
inline std::string to_string(const Value& value);

namespace detail {

/// Of longer arrays no more is printed.
constexpr std::size_t most_printed = 8;

inline std::string printed(double real) {
    if (std::isfinite(real)) return write_real(real);
    return std::isnan(real) ? "nan" : real > 0 ? "inf" : "-inf";
}

inline std::string printed(const Dtype& dtype, const Number& number) {
    if (number.is_real) return printed(shortest(dtype, number.real));
    if (dtype.kind == 'b') return number.magnitude != 0 ? "True" : "False";
    return (number.negative ? "-" : "") + std::to_string(number.magnitude);
}

inline std::string printed(const Shape& shape) {
    std::string text = "(";
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
        text += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
    return text + (shape.size() == 1 ? ",)" : ")");
}

template <class Items, class Print>
std::string joined(const Items& items, Print print) {
    std::string text;
    const char* comma = "";
    for (const auto& item : items) {
        text += comma + print(item);
        comma = ", ";
    }
    return text;
}

inline std::string printed_all(const Value::Items& items) {
    return joined(items, [](const Value& item) { return to_string(item); });
}

inline std::string printed_elements(const Value& array) {
    if (!is_number(array.dtype())) return "...";
    std::string text;
    for (std::size_t index = 0; index < std::min(array.size(), most_printed); ++index) {
        const auto* at = array.raw().data() + index * array.dtype().item_size;
        text += (index == 0 ? "" : ", ") + printed(array.dtype(), load(array.dtype(), at));
    }
    return text + (array.size() > most_printed ? ", ..." : "");
}

inline std::string printed_space(const Json& description);

}  // namespace detail

inline std::string to_string(const Value& value) {
    using namespace detail;
    switch (value.kind()) {
        case Kind::none: return "None";
        case Kind::boolean: return value.to<bool>() ? "True" : "False";
        case Kind::integer: return std::to_string(value.to<std::int64_t>());
        case Kind::big_integer: return value.text();
        case Kind::real: return printed(value.to<double>());
        case Kind::text: {
            std::string text;
            write_text(value.text(), text);
            return text;
        }
        case Kind::bytes: return "bytes(" + std::to_string(value.size()) + ")";
        case Kind::list: return "[" + printed_all(value.items()) + "]";
        case Kind::tuple:
            return "(" + printed_all(value.items()) + (value.size() == 1 ? ",)" : ")");
        case Kind::dict:
            return "{" + joined(value.members(), [](const auto& member) {
                       return to_string(member.first) + ": " + to_string(member.second);
                   }) + "}";
        case Kind::array:
            return "array([" + printed_elements(value) + "], " + printed(value.shape()) +
                   ", " + dtype_name(value.dtype()) + ")";
        case Kind::scalar: return dtype_name(value.dtype()) + "(" + printed_elements(value) + ")";
        case Kind::objects:
            return "array([" + printed_all(value.items()) + "], " + printed(value.shape()) +
                   ", object)";
        case Kind::graph: return "graph(" + printed_all(value.items()) + ")";
        case Kind::space: return printed_space(value.description());
        case Kind::autoreset: return "AutoresetMode." + value.text();
        case Kind::complex:
            return "complex(" + printed(value.complex().real()) + ", " +
                   printed(value.complex().imag()) + ")";
        case Kind::unsent: return value.unsent().repr;
    }
    return {};
}

/// Prints a value as `to_string` has it.
inline std::ostream& operator<<(std::ostream& out, const Value& value) {
    return out << to_string(value);
}

namespace detail {

/// Numbers of an array, flat, or the one that all of them are.
inline std::string printed_numbers(const Dtype& dtype, const spaces::Numbers& numbers,
                                   std::size_t count) {
    std::string text = "[";
    for (std::size_t at = 0; at < std::min(count, most_printed); ++at)
        text += (at == 0 ? "" : " ") + printed(dtype, numbers[at]);
    return text + (count > most_printed ? " ...]" : "]");
}

inline std::string printed_bound(const Dtype& dtype, const spaces::Numbers& numbers) {
    std::string first = numbers.outcome.empty() ? "[]" : printed(dtype, numbers.outcome.front());
    for (const Number& each : numbers.outcome) {
        if (printed(dtype, each) != first)
            return printed_numbers(dtype, numbers, numbers.outcome.size());
    }
    return first;
}

inline std::string printed_multi_discrete(const spaces::MultiDiscrete& space) {
    const std::size_t count = count_of(space.shape, std::size_t(1) << 62U);
    std::string text = "MultiDiscrete(" + printed_numbers(space.dtype, space.nvec, count);
    const std::string start = printed_bound(space.dtype, space.start);
    if (start != "0" && start != "[]")
        text += ", start=" + printed_numbers(space.dtype, space.start, count);
    if (space.shape.size() != 1) text += ", shape=" + printed(space.shape);
    return text + ")";
}

struct SpacePrinter {
    std::string operator()(const spaces::Discrete& space) const {
        const std::string start = printed(space.dtype, space.start);
        return "Discrete(" + std::to_string(space.n) +
               (start == "0" ? "" : ", start=" + start) + ")";
    }
    std::string operator()(const spaces::Box& space) const {
        return "Box(" + printed_bound(space.dtype, space.low) + ", " +
               printed_bound(space.dtype, space.high) + ", " + printed(space.shape) + ", " +
               dtype_name(space.dtype) + ")";
    }
    std::string operator()(const spaces::MultiBinary& space) const {
        return "MultiBinary(" +
               (space.is_flat ? std::to_string(space.shape[0]) : printed(space.shape)) + ")";
    }
    std::string operator()(const spaces::MultiDiscrete& space) const {
        return printed_multi_discrete(space);
    }
    std::string operator()(const spaces::Text& space) const {
        std::string text = "Text(" + std::to_string(space.min_length) + ", " +
                           std::to_string(space.max_length) + ", charset=";
        for (const std::string& character : space.characters) text += character;
        return text + ")";
    }
    std::string operator()(const spaces::Dict& space) const {
        return "Dict(" + joined(space.spaces, [this](const auto& member) {
                   const Value& key = member.first;
                   return (key.kind() == Kind::text ? "'" + key.text() + "'" : to_string(key)) +
                          ": " + print(member.second);
               }) + ")";
    }
    std::string operator()(const spaces::Tuple& space) const {
        return "Tuple(" + all(space.spaces) + ")";
    }
    std::string operator()(const spaces::OneOf& space) const {
        return "OneOf(" + all(space.spaces) + ")";
    }
    std::string operator()(const spaces::Sequence& space) const {
        return "Sequence(" + print(*space.space) + ", stack=" +
               (space.stack ? "True" : "False") + ")";
    }
    std::string operator()(const spaces::Graph& space) const {
        return "Graph(" + print(*space.node_space) + ", " +
               (space.edge_space ? print(*space.edge_space) : "None") + ")";
    }
    std::string operator()(const spaces::Opaque& space) const {
        return space.repr.value_or(space.class_name);
    }

    std::string print(const Space& space) const { return std::visit(*this, space.variant()); }
    std::string all(const std::vector<Space>& members) const {
        return joined(members, [this](const Space& member) { return print(member); });
    }
};

inline std::string printed_space(const Json& description) {
    try {
        return SpacePrinter().print(gym_http::read_space(description));
    } catch (const Error&) {
        // A program may have made an invalid description.
        return "space(...)";
    }
}

}  // namespace detail

}  // namespace gym_http

namespace gym_http::spaces {

/// A space as Gymnasium prints it, as `Box(-1.0, 1.0, (3,), float32)`; of bounds that
/// differ the first 8, unrounded, and those of all axes in one list.
inline std::string to_string(const Space& space) {
    return gym_http::detail::SpacePrinter().print(space);
}

/// Prints a space as `to_string` has it.
inline std::ostream& operator<<(std::ostream& out, const Space& space) {
    return out << to_string(space);
}

}  // namespace gym_http::spaces

namespace gym_http {
using spaces::to_string;
}

#endif
