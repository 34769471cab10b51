/// @file
/// Checks of received values, in any form.
#ifndef GYM_HTTP_CLIENT_CHECKING_HPP
#define GYM_HTTP_CLIENT_CHECKING_HPP

#include "gym_http_client/describing.hpp"

namespace gym_http::detail {

/// @throws ProtocolError It is no integer.
inline Value read_decimal(const std::string& digits) {
    try {
        return Value::integer(digits);
    } catch (const UsageError&) {
        throw ProtocolError("a value needs an integer of at most 4300 digits");
    }
}

/// @throws ProtocolError It is no shape, or one of too many bytes.
inline Shape read_shape(const Value& sizes, std::size_t item_size) {
    const ProtocolError wrong("a value has an impossible shape");
    if (sizes.kind() != Kind::list || sizes.size() > 32) throw wrong;
    Shape shape;
    Shape counted;
    for (const Value& size : sizes.items()) {
        if (size.kind() != Kind::integer) throw wrong;
        const auto outcome = size.to<std::int64_t>();
        if (outcome < 0 || outcome > std::numeric_limits<std::int32_t>::max()) throw wrong;
        shape.push_back(static_cast<std::size_t>(outcome));
        // Of an empty array the other axes have to be possible ones, too.
        counted.push_back(std::max<std::size_t>(shape.back(), 1));
    }
    constexpr std::size_t most = std::size_t(1) << 62U;
    if (item_size == 0 || count_of(counted, most / item_size) >= most / item_size) throw wrong;
    return shape;
}

/// @throws ProtocolError The dtype or the shape is invalid.
inline std::shared_ptr<const ArrayType> read_array_type(const Value& dtype, const Value& shape,
                                                        bool scalar = false) {
    if (dtype.kind() != Kind::text) throw ProtocolError("a dtype is no string");
    auto type = std::make_shared<ArrayType>();
    type->dtype = Dtype::read(dtype.text());
    if (!scalar) type->shape = read_shape(shape, type->dtype.item_size);
    type->count = count_of(type->shape, std::size_t(1) << 62U);
    return type;
}

/// @throws ProtocolError A bool or a character is invalid.
inline void check_elements(const Dtype& dtype, span<const unsigned char> content) {
    if (dtype.kind == 'b') {
        for (const unsigned char each : content) {
            if (each > 1)
                throw ProtocolError("an array has bytes that are neither true (1) nor false (0)");
        }
    }
    if (dtype.kind != 'U') return;
    for (std::size_t at = 0; at + 4 <= content.size(); at += 4) {
        if (load_unsigned(4, content.data() + at, dtype.order == '>') > 0x10ffff)
            throw ProtocolError("an array holds characters that there are not");
    }
}

/// Whether a value may be the key of a dict.
inline bool may_be_key(const Value& key) {
    switch (key.kind()) {
        case Kind::none:
        case Kind::boolean:
        case Kind::integer:
        case Kind::big_integer:
        case Kind::real:
        case Kind::text:
        case Kind::bytes:
        case Kind::scalar: return true;
        case Kind::tuple:
            for (const Value& item : key.items()) {
                if (!may_be_key(item)) return false;
            }
            return true;
        default: return false;
    }
}

/// The same text for keys that Python finds equal.
inline std::string identity_of(const Value& key) {
    const auto number = [](const Number& n) -> std::string {
        if (!n.is_real) return (n.negative ? "n-" : "n") + std::to_string(n.magnitude);
        const bool whole = std::floor(n.real) == n.real && std::fabs(n.real) < 0x1p63;
        if (whole)
            return "n" + std::to_string(static_cast<std::int64_t>(n.real));
        std::uint64_t bits = 0;
        std::memcpy(&bits, &n.real, sizeof bits);
        return "r" + std::to_string(bits);
    };
    switch (key.kind()) {
        case Kind::none: return "none";
        case Kind::boolean: return key.to<bool>() ? "n1" : "n0";
        case Kind::integer: return number(Number(key.to<std::int64_t>()));
        case Kind::big_integer: return "n" + key.text();
        case Kind::real: return number(Number(key.to<double>()));
        case Kind::text: return "s" + key.text();
        case Kind::scalar:
            if (is_number(key.dtype())) return number(load(key.dtype(), key.raw().data()));
            [[fallthrough]];
        case Kind::bytes: {
            const std::string name = key.kind() == Kind::scalar ? key.dtype().name : "b";
            return name + std::string(key.raw().begin(), key.raw().end());
        }
        default: {
            std::string text = "t" + std::to_string(key.size());
            for (const Value& item : key.items()) {
                const std::string identity = identity_of(item);
                text += ":" + std::to_string(identity.size()) + identity;
            }
            return text;
        }
    }
}

/// @throws ProtocolError A key is duplicate.
inline void check_keys(const std::vector<Value>& keys) {
    std::unordered_set<std::string> known;
    for (const Value& key : keys) {
        if (!known.insert(identity_of(key)).second)
            throw ProtocolError("a dict has a key twice");
    }
}

/// @throws ProtocolError It describes no space.
inline Value read_space_value(const Value& tree) {
    if (tree.kind() != Kind::dict) throw ProtocolError("a space needs a description");
    return Value::space(describe(gym_http::read_space(to_json(tree))));
}

/// @throws ProtocolError It names no mode.
inline Value read_autoreset(const Value& tree) {
    if (tree.kind() == Kind::text) {
        for (const char* mode : {"NextStep", "SameStep", "Disabled"}) {
            if (tree.text() == mode) return Value::autoreset(mode);
        }
    }
    throw ProtocolError("a value is no mode of autoreset");
}

}  // namespace gym_http::detail

#endif
