/// @file
/// Elements of spaces out of plain JSON.
#ifndef GYM_HTTP_CLIENT_ELEMENTS_HPP
#define GYM_HTTP_CLIENT_ELEMENTS_HPP

#include "gym_http_client/containing.hpp"
#include "gym_http_client/sampling.hpp"

namespace gym_http {

inline Value read_element(const Space& space, const Value& plain);

namespace detail {

[[noreturn]] inline void refuse_element(const char* expected) {
    throw ProtocolError(std::string("this is no element of its space: expected ") + expected);
}

/// Converts plain JSON to a number of a dtype.
inline Number plain_number(const Value& plain, const Dtype& dtype) {
    if (dtype.kind == 'f') {
        if (plain.is_none()) return Number(std::nan(""));
        if (plain.kind() == Kind::real || plain.kind() == Kind::integer)
            return rounded_to(dtype, Number(plain.to<double>()));
        refuse_element("a number");
    }
    if (plain.kind() == Kind::real && std::floor(plain.to<double>()) == plain.to<double>())
        return integer_near(plain.to<double>());
    const auto number = integer_in(plain, Dtype::read("<u8"));
    if (!number) refuse_element("an integer");
    return *number;
}

inline void gather(const Value& plain, const Dtype& dtype, const Shape& shape, std::size_t axis,
                   Bytes& content) {
    if (axis == shape.size()) {
        content.resize(content.size() + dtype.item_size);
        store(dtype, plain_number(plain, dtype), &content[content.size() - dtype.item_size]);
        return;
    }
    if (plain.kind() != Kind::list || plain.size() != shape[axis])
        refuse_element("nested lists of the space's shape");
    for (const Value& item : plain.items()) gather(item, dtype, shape, axis + 1, content);
}

inline Value plain_array(const Value& plain, const Dtype& dtype, const Shape& shape) {
    Bytes content;
    gather(plain, dtype, shape, 0, content);
    return Value::array(dtype.name, shape, std::move(content));
}

inline const Value::Items& plain_list(const Value& plain, std::size_t size) {
    if (plain.kind() != Kind::list || plain.size() != size)
        refuse_element("a list of the right length");
    return plain.items();
}

inline const Value& plain_member(const Value& plain, const Value& key) {
    const std::string name =
        key.kind() == Kind::text ? key.text() : std::to_string(key.to<std::int64_t>());
    const Value* found = plain.kind() == Kind::dict ? plain.find(name) : nullptr;
    if (found == nullptr) refuse_element("an object with the space's keys");
    return *found;
}

/// A batch of elements, one by one, or as Dicts and Tuples of such.
inline Value read_batch(const Space& space, const Value& plain) {
    if (const auto* dict = std::get_if<spaces::Dict>(&space.variant())) {
        Value::Members members;
        for (const auto& [key, member] : dict->spaces)
            members.emplace_back(key, read_batch(member, plain_member(plain, key)));
        return Value::dict(std::move(members));
    }
    if (const auto* tuple = std::get_if<spaces::Tuple>(&space.variant())) {
        const auto& parts = plain_list(plain, tuple->spaces.size());
        Value::Items items;
        for (std::size_t at = 0; at < parts.size(); ++at)
            items.push_back(read_batch(tuple->spaces[at], parts[at]));
        return Value::tuple(std::move(items));
    }
    if (plain.kind() != Kind::list) refuse_element("a list");
    Value::Items items;
    for (const Value& each : plain.items()) items.push_back(read_element(space, each));
    return stacked(space, items);
}

struct ElementReader {
    const Value& plain;

    Value operator()(const spaces::Discrete& space) const {
        Bytes content(space.dtype.item_size);
        store(space.dtype, plain_number(plain, space.dtype), content.data());
        return Value::scalar(space.dtype.name, std::move(content));
    }
    Value operator()(const spaces::Box& space) const {
        return plain_array(plain, space.dtype, space.shape);
    }
    Value operator()(const spaces::MultiBinary& space) const {
        return plain_array(plain, Dtype::read("|i1"), space.shape);
    }
    Value operator()(const spaces::MultiDiscrete& space) const {
        return plain_array(plain, space.dtype, space.shape);
    }
    Value operator()(const spaces::Text&) const {
        if (plain.kind() != Kind::text) refuse_element("a string");
        return plain;
    }
    Value operator()(const spaces::Dict& space) const {
        Value::Members members;
        for (const auto& [key, member] : space.spaces)
            members.emplace_back(key, read_element(member, plain_member(plain, key)));
        return Value::dict(std::move(members));
    }
    Value operator()(const spaces::Tuple& space) const {
        const auto& parts = plain_list(plain, space.spaces.size());
        Value::Items items;
        for (std::size_t at = 0; at < parts.size(); ++at)
            items.push_back(read_element(space.spaces[at], parts[at]));
        return Value::tuple(std::move(items));
    }
    Value operator()(const spaces::OneOf& space) const {
        const auto& parts = plain_list(plain, 2);
        const Number index = plain_number(parts[0], Dtype::read("<i8"));
        if (!is_among(index, Number(), space.spaces.size())) refuse_element("an index");
        return Value::tuple({Value::scalar(index.int64()),
                             read_element(space.spaces[index.magnitude], parts[1])});
    }
    Value operator()(const spaces::Sequence& space) const {
        if (space.stack) return read_batch(*space.space, plain);
        if (plain.kind() != Kind::list) refuse_element("a list");
        Value::Items items;
        for (const Value& each : plain.items()) items.push_back(read_element(*space.space, each));
        return Value::tuple(std::move(items));
    }
    Value operator()(const spaces::Graph& space) const {
        Value nodes = read_batch(*space.node_space, plain_member(plain, "nodes"));
        const Value* edges = plain.find("edges");
        const Value* links = plain.find("edge_links");
        if (edges == nullptr || edges->is_none() || links == nullptr || links->is_none() ||
            !space.edge_space)
            return Value::graph(std::move(nodes), {}, {});
        const std::size_t count = links->kind() == Kind::list ? links->size() : 0;
        return Value::graph(std::move(nodes), read_batch(*space.edge_space, *edges),
                            plain_array(*links, Dtype::read("<i4"), {count, 2}));
    }
    Value operator()(const spaces::Opaque&) const { return plain; }
};

}  // namespace detail

/// Converts plain JSON to an element of a space.
/// @throws ProtocolError It is not an element.
inline Value read_element(const Space& space, const Value& plain) {
    return std::visit(detail::ElementReader{plain}, space.variant());
}

}  // namespace gym_http

#endif
