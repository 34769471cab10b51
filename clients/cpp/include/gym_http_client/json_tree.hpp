/// @file
/// Trees of JSON, made of values.
#ifndef GYM_HTTP_CLIENT_JSON_TREE_HPP
#define GYM_HTTP_CLIENT_JSON_TREE_HPP

#include "gym_http_client/json.hpp"

namespace gym_http {

namespace detail {

inline double finite(double number) {
    // A JSON writer would silently convert it to null.
    if (!std::isfinite(number)) throw UsageError("JSON has no NaN and no infinity");
    return number;
}

inline Json element_json(const Dtype& dtype, const unsigned char* at) {
    const Number number = load(dtype, at);
    if (dtype.kind == 'b') return number.magnitude != 0;
    if (number.is_real) return finite(shortest(dtype, number.real));
    if (number.negative) return number.int64();
    return number.magnitude;
}

inline Json nested_json(const Value& array, std::size_t axis, std::size_t& element) {
    const Shape& shape = array.shape();
    const Dtype& dtype = array.dtype();
    if (axis == shape.size())
        return element_json(dtype, array.raw().data() + element++ * dtype.item_size);
    Json list = Json::array();
    for (std::size_t index = 0; index < shape[axis]; ++index)
        list.push_back(nested_json(array, axis + 1, element));
    return list;
}

}  // namespace detail

/// Converts a value to JSON: nested lists of arrays, lists of tuples, strings of integers
/// beyond 64 bits and of keys that are integers.
/// @throws UsageError JSON cannot represent it: NaN, bytes, a space, a graph.
inline Json to_json(const Value& value) {
    std::size_t element = 0;
    switch (value.kind()) {
        case Kind::none: return nullptr;
        case Kind::boolean: return value.to<bool>();
        case Kind::integer: return value.to<std::int64_t>();
        case Kind::real: return detail::finite(value.to<double>());
        case Kind::text:
        case Kind::big_integer: return value.text();
        case Kind::list:
        case Kind::tuple: {
            Json list = Json::array();
            for (const Value& item : value.items()) list.push_back(to_json(item));
            return list;
        }
        case Kind::dict: {
            Json object = Json::object();
            // Not one by one through operator[], which looks for each key.
            auto& members = object.get_ref<Json::object_t&>();
            for (const auto& [key, item] : value.members())
                members.emplace_back(key.kind() == Kind::integer
                                         ? std::to_string(key.to<std::int64_t>())
                                         : key.to<std::string>(),
                                     to_json(item));
            return object;
        }
        case Kind::array:
        case Kind::scalar:
            if (!is_number(value.dtype()))
                throw UsageError("JSON has no dtype " + value.dtype().name);
            return detail::nested_json(value, 0, element);
        default:
            throw UsageError(std::string("JSON cannot represent a value of the kind ") +
                             name_of(value.kind()));
    }
}

}  // namespace gym_http

#endif
