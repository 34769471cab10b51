/// @file
/// How values are made. Included by value.hpp.
#ifndef GYM_HTTP_CLIENT_VALUE_MAKING_HPP
#define GYM_HTTP_CLIENT_VALUE_MAKING_HPP

#include "gym_http_client/value.hpp"

namespace gym_http {

namespace detail {

/// Counts elements; `limit` when there are so many or more.
inline std::size_t count_of(const Shape& shape, std::size_t limit) {
    if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return 0;
    std::size_t count = 1;
    for (const std::size_t size : shape) {
        if (count > limit / size) return limit;
        count *= size;
    }
    return count;
}

inline std::shared_ptr<const ArrayType> array_type(const std::string& dtype, Shape shape) {
    auto type = std::make_shared<ArrayType>();
    type->dtype = Dtype::read(dtype);
    type->count = count_of(shape, std::size_t(1) << 62U);
    type->shape = std::move(shape);
    return type;
}

inline Value owned(std::shared_ptr<const ArrayType> type, Bytes content, bool scalar) {
    if (content.size() != type->count * type->dtype.item_size)
        throw UsageError("an array of dtype " + type->dtype.name + " and " +
                         std::to_string(type->count) + " elements has not " +
                         std::to_string(content.size()) + " bytes");
    auto owner = std::make_shared<const Bytes>(std::move(content));
    return Value::view(std::move(type), owner->data(), owner, scalar);
}

template <class T>
Bytes bytes_of(const std::vector<T>& elements) {
    Bytes content(elements.size() * sizeof(T));
    if constexpr (std::is_same_v<T, bool>) {
        for (std::size_t index = 0; index < elements.size(); ++index)
            content[index] = elements[index] ? 1 : 0;
    } else if (!elements.empty()) {
        std::memcpy(content.data(), elements.data(), content.size());
    }
    return content;
}

}  // namespace detail

template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int>>
Value::Value(T integer) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
        if (integer > static_cast<T>(std::numeric_limits<std::int64_t>::max())) {
            held_ = BigInteger{std::to_string(integer)};
            return;
        }
    }
    held_ = static_cast<std::int64_t>(integer);
}

inline Value Value::integer(std::string_view digits) {
    const bool negative = !digits.empty() && digits.front() == '-';
    std::string_view size = digits.substr(negative ? 1 : 0);
    if (size.empty() || size.size() > 4300 ||
        size.find_first_not_of("0123456789") != std::string_view::npos)
        throw UsageError("needs an integer of at most 4300 digits");
    size.remove_prefix(std::min(size.find_first_not_of('0'), size.size() - 1));
    const std::string_view most = negative ? "9223372036854775808" : "9223372036854775807";
    const bool fits = size.size() < most.size() || (size.size() == most.size() && size <= most);
    if (!fits) return Value(BigInteger{(negative ? "-" : "") + std::string(size)});
    std::uint64_t magnitude = 0;
    for (const char digit : size) magnitude = magnitude * 10 + std::uint64_t(digit - '0');
    return Value(static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude));
}

inline Value Value::bytes(Bytes content) {
    return Value(Blob{std::make_shared<const Bytes>(std::move(content))});
}

template <class T>
Value Value::array(const std::vector<T>& elements) {
    return array(elements, {elements.size()});
}

template <class T>
Value Value::array(const std::vector<T>& elements, Shape shape) {
    return array(dtype_of<T>::name, std::move(shape), detail::bytes_of(elements));
}

inline Value Value::array(const std::string& dtype, Shape shape, Bytes content) {
    return detail::owned(detail::array_type(dtype, std::move(shape)), std::move(content),
                         false);
}

template <class T>
Value Value::scalar(T number) {
    return scalar(dtype_of<T>::name, detail::bytes_of(std::vector<T>{number}));
}

inline Value Value::scalar(const std::string& dtype, Bytes content) {
    return detail::owned(detail::array_type(dtype, {}), std::move(content), true);
}

inline Value Value::objects(Shape shape, Items items) {
    if (detail::count_of(shape, items.size() + 1) != items.size())
        throw UsageError("an array of objects has another number of items than its shape: " +
                         std::to_string(items.size()));
    return Value(Objects{std::move(shape), std::move(items)});
}

inline Value Value::graph(Value nodes, Value edges, Value edge_links) {
    Items parts;
    parts.reserve(3);
    parts.push_back(std::move(nodes));
    parts.push_back(std::move(edges));
    parts.push_back(std::move(edge_links));
    return Value(Graph{std::move(parts)});
}

inline Value Value::view(std::shared_ptr<const ArrayType> type, const unsigned char* data,
                         std::shared_ptr<const void> owner, bool scalar) {
    Array array{std::move(type), data, std::move(owner)};
    return scalar ? Value(Held(Scalar{std::move(array)})) : Value(Held(std::move(array)));
}

}  // namespace gym_http

#endif
