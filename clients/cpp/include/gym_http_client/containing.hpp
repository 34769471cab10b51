/// @file
/// Whether a value is an element of a space, as by Gymnasium's `contains`.
#ifndef GYM_HTTP_CLIENT_CONTAINING_HPP
#define GYM_HTTP_CLIENT_CONTAINING_HPP

#include "gym_http_client/describing.hpp"

namespace gym_http {

namespace detail {

/// Whether a dtype holds all that another one does, as NumPy's `can_cast`.
inline bool can_cast(const Dtype& from, const Dtype& to) {
    if (!is_number(from)) return false;
    if (from.kind == 'b') return true;
    if (to.kind == 'b') return false;
    const std::size_t size = from.item_size;
    if (from.kind == to.kind) return size <= to.item_size;
    if (to.kind == 'f')
        return from.kind != 'f' && (size == 8 ? to.item_size == 8 : 2 * size <= to.item_size);
    return from.kind == 'u' && to.kind == 'i' && size < to.item_size;
}

/// A number for each element of an array, or of nested lists of the same shape.
inline std::optional<std::vector<Number>> numbers_in(const Value& value, const Shape& shape,
                                                     const Dtype& dtype, std::size_t axis = 0) {
    std::vector<Number> numbers;
    if (value.is_array()) {
        const bool fits = axis == 0 && value.shape() == shape && can_cast(value.dtype(), dtype);
        if (!fits) return {};
        const std::size_t size = value.dtype().item_size;
        for (std::size_t at = 0; at < value.size(); ++at)
            numbers.push_back(load(value.dtype(), value.raw().data() + at * size));
        return numbers;
    }
    const Kind kind = value.kind();
    if (axis == shape.size()) {
        if (kind == Kind::boolean) return {{Number(std::uint64_t(value.to<bool>()))}};
        if (kind == Kind::integer) return {{Number(value.to<std::int64_t>())}};
        if (kind == Kind::real && dtype.kind == 'f')
            return {{rounded_to(dtype, Number(value.to<double>()))}};
        return {};
    }
    if ((kind != Kind::list && kind != Kind::tuple) || value.size() != shape[axis]) return {};
    for (const Value& item : value.items()) {
        const auto more = numbers_in(item, shape, dtype, axis + 1);
        if (!more) return {};
        numbers.insert(numbers.end(), more->begin(), more->end());
    }
    return numbers;
}

inline std::optional<Number> integer_in(const Value& value, const Dtype& dtype) {
    const bool counts = value.is_array() && value.shape().empty() &&
                        (value.dtype().kind == 'i' || value.dtype().kind == 'u');
    if (counts && can_cast(value.dtype(), dtype))
        return load(value.dtype(), value.raw().data());
    if (value.kind() == Kind::boolean) return Number(std::uint64_t(value.to<bool>()));
    if (value.kind() == Kind::integer) return Number(value.to<std::int64_t>());
    if (value.kind() == Kind::big_integer) {
        Number number;
        const std::string& digits = value.text();
        const auto end = digits.data() + digits.size();
        const auto read = std::from_chars(digits.data(), end, number.magnitude);
        if (read.ec == std::errc() && read.ptr == end) return number;
    }
    return {};
}

/// Whether an integer is one of `n` from `start` on.
inline bool is_among(const Number& number, const Number& start, std::uint64_t n) {
    if (!at_most(start, number)) return false;
    const std::uint64_t from = start.negative ? 0 - start.magnitude : start.magnitude;
    const std::uint64_t to = number.negative ? 0 - number.magnitude : number.magnitude;
    return to - from < n;
}

inline const Value* member_of(const Value& dict, const Value& key) {
    for (const auto& [name, value] : dict.members()) {
        const bool same = name.kind() == key.kind() &&
                          (name.kind() == Kind::text ? name.text() == key.text()
                           : name.kind() == Kind::integer &&
                                 name.to<std::int64_t>() == key.to<std::int64_t>());
        if (same) return &value;
    }
    return nullptr;
}

inline const Space& space_in(const Space& space) { return space; }
inline const Space& space_in(const std::pair<Value, Space>& member) { return member.second; }

/// Whether a value is many elements of a space, batched as Gymnasium does; how many.
inline std::optional<std::size_t> count_in_batch(const Space& space, const Value& batch) {
    const auto& kind = space.variant();
    const auto each = [&](const auto& members, const auto& part) -> std::optional<std::size_t> {
        std::optional<std::size_t> count;
        for (std::size_t at = 0; at < members.size(); ++at) {
            const Value* value = part(at);
            const auto counted = value == nullptr ? std::nullopt
                                                  : count_in_batch(space_in(members[at]), *value);
            if (!counted || (count && *count != *counted)) return {};
            count = counted;
        }
        return count ? count : 0;
    };
    if (const auto* dict = std::get_if<spaces::Dict>(&kind)) {
        if (batch.kind() != Kind::dict || batch.size() != dict->spaces.size()) return {};
        return each(dict->spaces,
                    [&](std::size_t at) { return member_of(batch, dict->spaces[at].first); });
    }
    if (const auto* tuple = std::get_if<spaces::Tuple>(&kind)) {
        if (batch.kind() != Kind::tuple || batch.size() != tuple->spaces.size()) return {};
        return each(tuple->spaces, [&](std::size_t at) { return &batch[at]; });
    }
    const bool arrays = space.is<spaces::Box>() || space.is<spaces::Discrete>() ||
                        space.is<spaces::MultiBinary>() || space.is<spaces::MultiDiscrete>();
    const bool rows = batch.kind() == Kind::array && !batch.shape().empty();
    if (!(arrays ? rows : batch.kind() == Kind::tuple)) return {};
    const std::size_t count = arrays ? batch.shape().front() : batch.size();
    for (std::size_t at = 0; at < count; ++at) {
        if (!space.contains(arrays ? batch.row(at) : batch[at])) return {};
    }
    return count;
}

struct Containing {
    const Value& value;

    bool operator()(const spaces::Discrete& space) const {
        const auto number = integer_in(value, space.dtype);
        return number && at_most(*number, limit(space.dtype)) &&
               is_among(*number, space.start, space.n);
    }
    bool operator()(const spaces::Box& space) const {
        const auto numbers = numbers_in(value, space.shape, space.dtype);
        for (std::size_t at = 0; numbers && at < numbers->size(); ++at) {
            const Number& number = (*numbers)[at];
            if (!at_most(space.low[at], number) || !at_most(number, space.high[at])) return false;
        }
        return numbers.has_value();
    }
    bool operator()(const spaces::MultiBinary& space) const {
        if (value.is_array() && !is_number(value.dtype())) return false;
        const auto numbers = numbers_in(value, space.shape,
                                        value.is_array() ? value.dtype() : Dtype::read("<f8"));
        if (!numbers || value.kind() == Kind::scalar) return false;
        for (const Number& number : *numbers) {
            if (number.rounded() != 0 && number.rounded() != 1) return false;
        }
        return true;
    }
    bool operator()(const spaces::MultiDiscrete& space) const {
        const auto numbers = numbers_in(value, space.shape, space.dtype);
        for (std::size_t at = 0; numbers && at < numbers->size(); ++at) {
            if (!is_among((*numbers)[at], space.start[at], space.nvec[at].magnitude)) return false;
        }
        return numbers.has_value();
    }
    bool operator()(const spaces::Text& space) const {
        if (value.kind() != Kind::text) return false;
        const auto characters = characters_of(value.text());
        if (characters.size() < space.min_length || characters.size() > space.max_length)
            return false;
        const std::unordered_set<std::string> known(space.characters.begin(),
                                                    space.characters.end());
        for (const std::string& character : characters) {
            if (known.count(character) == 0) return false;
        }
        return true;
    }
    bool operator()(const spaces::Dict& space) const {
        if (value.kind() != Kind::dict || value.size() != space.spaces.size()) return false;
        for (const auto& [key, member] : space.spaces) {
            const Value* found = member_of(value, key);
            if (found == nullptr || !member.contains(*found)) return false;
        }
        return true;
    }
    bool operator()(const spaces::Tuple& space) const {
        const bool listed = value.kind() == Kind::tuple || value.kind() == Kind::list;
        if (!listed || value.size() != space.spaces.size()) return false;
        for (std::size_t at = 0; at < space.spaces.size(); ++at) {
            if (!space.spaces[at].contains(value[at])) return false;
        }
        return true;
    }
    bool operator()(const spaces::OneOf& space) const {
        if (value.kind() != Kind::tuple || value.size() != 2) return false;
        const auto index = integer_in(value[0], Dtype::read("<i8"));
        return index && is_among(*index, Number(), space.spaces.size()) &&
               space.spaces[index->magnitude].contains(value[1]);
    }
    bool operator()(const spaces::Sequence& space) const {
        if (space.stack) return count_in_batch(*space.space, value).has_value();
        if (value.kind() != Kind::tuple) return false;
        for (const Value& item : value.items()) {
            if (!space.space->contains(item)) return false;
        }
        return true;
    }
    bool operator()(const spaces::Graph& space) const {
        if (value.kind() != Kind::graph) return false;
        const Value &edges = value[1], &links = value[2];
        const auto nodes = count_in_batch(*space.node_space, value[0]);
        if (!nodes) return false;
        if (edges.is_none() || links.is_none()) return edges.is_none() && links.is_none();
        if (!space.edge_space || links.kind() != Kind::array) return false;
        const auto count = count_in_batch(*space.edge_space, edges);
        const char kind = links.dtype().kind;
        if (!count || (kind != 'i' && kind != 'u') || links.shape() != Shape{*count, 2})
            return false;
        for (std::size_t at = 0; at < links.size(); ++at) {
            const Number link =
                load(links.dtype(), links.raw().data() + at * links.dtype().item_size);
            if (!is_among(link, Number(), *nodes)) return false;
        }
        return true;
    }
    bool operator()(const spaces::Opaque& space) const {
        space.refuse("test elements of",
                     "send POST .../action_space/contains or .../observation_space/contains");
    }

    static Number limit(const Dtype& dtype) {
        const std::size_t bits = 8 * dtype.item_size - (dtype.kind == 'i' ? 1 : 0);
        return Number(~std::uint64_t(0) >> (64 - bits));
    }
};

}  // namespace detail

namespace spaces {

inline bool Space::contains(const Value& value) const {
    return std::visit(gym_http::detail::Containing{value}, variant());
}

}  // namespace spaces

}  // namespace gym_http

#endif
