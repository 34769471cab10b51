/// @file
/// How values are read. Included by value.hpp.
#ifndef GYM_HTTP_CLIENT_VALUE_IMPL_HPP
#define GYM_HTTP_CLIENT_VALUE_IMPL_HPP

#include "gym_http_client/value.hpp"

namespace gym_http {

inline std::string Value::type_name() const {
    if (!is_array()) return std::string("a ") + name_of(kind());
    const std::string spelt = dtype().spelt();
    return std::string("an ") + name_of(kind()) + " of dtype " + dtype().name +
           (spelt.empty() ? "" : " (" + spelt + ")");
}

inline void Value::refuse(const std::string& wanted) const {
    throw UsageError("expected " + wanted + ", but this is " + type_name());
}

inline const Value::Array& Value::array_data(const char* wanted) const {
    if (const auto* array = std::get_if<Array>(&held_)) return *array;
    if (const auto* scalar = std::get_if<Scalar>(&held_)) return scalar->array;
    refuse(wanted);
}

template <class T>
span<const T> Value::as() const& {
    if (!is_array()) refuse(std::string("elements of type ") + dtype_of<T>::spelt);
    const Array& array = array_data("an array");
    if (array.type->dtype.name != dtype_of<T>::name)
        refuse(std::string("elements of type ") + dtype_of<T>::spelt);
    return {reinterpret_cast<const T*>(array.data), array.type->count};
}

inline Number Value::number() const {
    if (const auto* integer = std::get_if<std::int64_t>(&held_)) return Number(*integer);
    if (const auto* real = std::get_if<double>(&held_)) return Number(*real);
    if (!is_array() || !is_number(dtype()) || array_data("a number").type->count != 1)
        refuse("a number");
    return load(dtype(), array_data("a number").data);
}

template <class T>
T Value::to() const {
    if constexpr (std::is_same_v<T, std::string>) {
        if (kind() != Kind::text) refuse("a string");
        return text();
    } else if constexpr (std::is_same_v<T, bool>) {
        if (const auto* flag = std::get_if<bool>(&held_)) return *flag;
        if (!is_array() || dtype().kind != 'b') refuse("a bool");
        return number().magnitude != 0;
    } else if constexpr (std::is_integral_v<T>) {
        const Number number = this->number();
        const auto integer = static_cast<T>(number.negative ? 0 - number.magnitude
                                                            : number.magnitude);
        const bool fits = !number.is_real && (integer < T(0)) == number.negative &&
                          (number.negative ? 0 - std::uint64_t(integer)
                                           : std::uint64_t(integer)) == number.magnitude;
        if (!fits) refuse("an integer that the type holds");
        return integer;
    } else {
        static_assert(std::is_floating_point_v<T>, "bool, a number or std::string");
        const Number number = this->number();
        const double real = number.rounded();
        const Number again(real);
        if (!number.is_real && !(at_most(number, again) && at_most(again, number)))
            refuse("a number that a double holds");
        return static_cast<T>(real);
    }
}

inline std::vector<double> Value::to_doubles() const {
    const Array& array = array_data("numbers");
    if (!is_number(array.type->dtype)) refuse("numbers");
    std::vector<double> numbers;
    numbers.reserve(array.type->count);
    for (std::size_t index = 0; index < array.type->count; ++index) {
        const Number number =
            load(array.type->dtype, array.data + index * array.type->dtype.item_size);
        const Number again(number.rounded());
        if (!number.is_real && !(at_most(number, again) && at_most(again, number)))
            refuse("numbers that doubles hold");
        numbers.push_back(again.real);
    }
    return numbers;
}

inline const Shape& Value::shape() const {
    if (const auto* objects = std::get_if<Objects>(&held_)) return objects->shape;
    return array_data("a shape").type->shape;
}

inline span<const unsigned char> Value::raw() const {
    if (const auto* blob = std::get_if<Blob>(&held_))
        return {blob->content->data(), blob->content->size()};
    const Array& array = array_data("bytes");
    return {array.data, array.bytes()};
}

inline std::size_t Value::size() const {
    if (kind() == Kind::dict) return members().size();
    if (kind() == Kind::bytes) return raw().size();
    if (is_array()) return array_data("a size").type->count;
    return items().size();
}

inline const Value::Items& Value::items() const {
    if (const auto* list = std::get_if<List>(&held_)) return list->items;
    if (const auto* tuple = std::get_if<Tuple>(&held_)) return tuple->items;
    if (const auto* objects = std::get_if<Objects>(&held_)) return objects->items;
    if (const auto* graph = std::get_if<Graph>(&held_)) return graph->parts;
    refuse("items");
}

inline const Value& Value::operator[](std::size_t index) const {
    const Items& all = items();
    if (index >= all.size())
        throw UsageError("there is no item " + std::to_string(index) + " of " +
                         std::to_string(all.size()));
    return all[index];
}

inline const Value::Members& Value::members() const {
    if (const auto* dict = std::get_if<Dict>(&held_)) return dict->members;
    refuse("members");
}

inline const Value* Value::find(std::string_view key) const {
    for (const auto& [name, value] : members()) {
        const auto* text = std::get_if<std::string>(&name.held_);
        if (text != nullptr && *text == key) return &value;
    }
    return nullptr;
}

inline const Value& Value::operator[](std::string_view key) const {
    if (const Value* value = find(key)) return *value;
    throw UsageError("there is no key \"" + std::string(key) + "\"");
}

inline Value Value::row(std::size_t index) const {
    const Array& array = array_data("a row");
    const Shape& shape = array.type->shape;
    if (shape.empty() || index >= shape.front())
        throw UsageError("there is no row " + std::to_string(index) + " of an array with " +
                         std::to_string(shape.empty() ? 0 : shape.front()));
    auto type = std::make_shared<ArrayType>();
    type->dtype = array.type->dtype;
    type->shape.assign(shape.begin() + 1, shape.end());
    type->count = array.type->count / shape.front();
    const std::size_t size = type->count * type->dtype.item_size;
    return view(std::move(type), array.data + index * size, array.owner);
}

inline const std::string& Value::text() const {
    if (const auto* text = std::get_if<std::string>(&held_)) return *text;
    if (const auto* integer = std::get_if<BigInteger>(&held_)) return integer->digits;
    if (const auto* autoreset = std::get_if<Autoreset>(&held_)) return autoreset->mode;
    refuse("text");
}

inline const std::complex<double>& Value::complex() const {
    if (const auto* number = std::get_if<std::complex<double>>(&held_)) return *number;
    refuse("a complex number");
}

inline const Unsent& Value::unsent() const {
    if (const auto* unsent = std::get_if<Unsent>(&held_)) return *unsent;
    refuse("a value that could not be sent");
}

inline const Json& Value::description() const {
    if (const auto* space = std::get_if<SpaceData>(&held_)) return space->description;
    refuse("a space");
}

}  // namespace gym_http

#endif
