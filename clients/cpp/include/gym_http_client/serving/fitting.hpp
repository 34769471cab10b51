/// @file
/// Converts values to elements of a space.
#ifndef GYM_HTTP_CLIENT_SERVING_FITTING_HPP
#define GYM_HTTP_CLIENT_SERVING_FITTING_HPP

#include "gym_http_client/elements.hpp"

namespace gym_http::detail {

/// The shape of a space's arrays; nothing if its elements are not arrays.
inline const Shape* shape_of(const Space& space) {
    const auto& kind = space.variant();
    if (const auto* box = std::get_if<spaces::Box>(&kind)) return &box->shape;
    if (const auto* binary = std::get_if<spaces::MultiBinary>(&kind)) return &binary->shape;
    if (const auto* multi = std::get_if<spaces::MultiDiscrete>(&kind)) return &multi->shape;
    return nullptr;
}

inline Value reshaped(const Value& value, const Shape& shape) {
    const auto* array = std::get_if<Value::Array>(&value.held());
    if (array == nullptr || array->type->shape == shape ||
        count_of(shape, array->type->count + 1) != array->type->count)
        return value;
    auto type = std::make_shared<ArrayType>(*array->type);
    type->shape = shape;
    return Value::view(std::move(type), array->data, array->owner);
}

/// Converts a value to an element of a space: numbers and nested lists are
/// cast, and arrays get its shape. Other values stay unchanged, or are refused.
/// @throws ProtocolError It cannot be converted.
inline Value fitted(const Space& space, const Value& value) {
    const auto& kind = space.variant();
    if (const auto* dict = std::get_if<spaces::Dict>(&kind); dict && value.kind() == Kind::dict) {
        Value::Members members;
        for (const auto& [key, member] : dict->spaces)
            members.emplace_back(key, fitted(member, plain_member(value, key)));
        return Value::dict(std::move(members));
    }
    if (const auto* tuple = std::get_if<spaces::Tuple>(&kind);
        tuple && (value.kind() == Kind::list || value.kind() == Kind::tuple)) {
        if (value.size() != tuple->spaces.size()) refuse_element("as many items as spaces");
        Value::Items items;
        for (std::size_t at = 0; at < value.size(); ++at)
            items.push_back(fitted(tuple->spaces[at], value[at]));
        return Value::tuple(std::move(items));
    }
    switch (value.kind()) {
        case Kind::none:
        case Kind::boolean:
        case Kind::integer:
        case Kind::big_integer:
        case Kind::real:
        case Kind::list:
        case Kind::dict: return read_element(space, value);
        case Kind::array:
            if (const Shape* shape = shape_of(space)) return reshaped(value, *shape);
            return value;
        default: return value;
    }
}

}  // namespace gym_http::detail

#endif
