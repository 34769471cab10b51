/// @file
/// JSON text, written without rounding.
#ifndef GYM_HTTP_CLIENT_JSON_HPP
#define GYM_HTTP_CLIENT_JSON_HPP

#include "gym_http_client/json_reading.hpp"

namespace gym_http {

namespace detail {

inline void write_text(std::string_view text, std::string& out) {
    static constexpr char hex[] = "0123456789abcdef";
    out += '"';
    for (const char each : text) {
        switch (each) {
            case '"': out += "\\\""; break;
            case '\\': out += "\\\\"; break;
            case '\b': out += "\\b"; break;
            case '\f': out += "\\f"; break;
            case '\n': out += "\\n"; break;
            case '\r': out += "\\r"; break;
            case '\t': out += "\\t"; break;
            default:
                if (static_cast<unsigned char>(each) < 0x20) {
                    out += "\\u00";
                    out += hex[each >> 4];
                    out += hex[each & 15];
                } else {
                    out += each;
                }
        }
    }
    out += '"';
}

inline void write_proper_text(std::string_view text, std::string& out) {
    if (utf8_of(text) != Utf8::proper)
        throw UsageError("a string is not proper UTF-8, so JSON cannot represent it");
    write_text(text, out);
}

inline void write_finite(double number, std::string& out) {
    if (!std::isfinite(number))
        throw UsageError(std::string("JSON has no ") + (std::isnan(number) ? "NaN" : "infinity") +
                         ": give a gym_http::Value, which is sent without loss");
    out += write_real(number);
}

template <class Items, class Write>
void write_list(const Items& items, std::string& out, Write write) {
    out += '[';
    bool first = true;
    for (const auto& item : items) {
        if (!first) out += ',';
        first = false;
        write(item);
    }
    out += ']';
}

}  // namespace detail

/// Writes JSON, compact; floats by their shortest decimals, always with a point or an
/// exponent.
/// @throws UsageError The value has a NaN, an infinity, or a string not in UTF-8.
inline void write_json(const Json& json, std::string& out) {
    if (json.is_object()) {
        out += '{';
        bool first = true;
        for (const auto& [key, value] : json.items()) {
            if (!first) out += ',';
            first = false;
            detail::write_proper_text(key, out);
            out += ':';
            write_json(value, out);
        }
        out += '}';
    } else if (json.is_array()) {
        detail::write_list(json, out, [&](const Json& item) { write_json(item, out); });
    } else if (json.is_string()) {
        detail::write_proper_text(json.get_ref<const std::string&>(), out);
    } else if (json.is_number_float()) {
        detail::write_finite(json.get<double>(), out);
    } else if (json.is_binary() || json.is_discarded()) {
        throw UsageError("JSON has no bytes: give a gym_http::Value");
    } else {
        out += json.dump();
    }
}

/// Writes JSON, compact.
inline std::string write_json(const Json& json) {
    std::string text;
    write_json(json, text);
    return text;
}

namespace detail {

inline std::string write_element(const Dtype& dtype, const unsigned char* at) {
    const Number number = load(dtype, at);
    if (dtype.kind == 'b') return number.magnitude != 0 ? "true" : "false";
    if (number.is_real) {
        std::string text;
        write_finite(shortest(dtype, number.real), text);
        return text;
    }
    return (number.negative ? "-" : "") + std::to_string(number.magnitude);
}

inline void write_nested(const Value& array, std::size_t axis, std::size_t& element,
                         std::string& out) {
    const Shape& shape = array.shape();
    const Dtype& dtype = array.dtype();
    if (axis == shape.size()) {
        out += write_element(dtype, array.raw().data() + element * dtype.item_size);
        ++element;
        return;
    }
    out += '[';
    for (std::size_t index = 0; index < shape[axis]; ++index) {
        if (index != 0) out += ',';
        write_nested(array, axis + 1, element, out);
    }
    out += ']';
}

inline void write_plain_key(const Value& key, std::string& out) {
    if (key.kind() == Kind::integer)
        return write_text(std::to_string(key.to<std::int64_t>()), out);
    if (key.kind() != Kind::text)
        throw UsageError(std::string("plain JSON has no keys of the kind ") +
                         name_of(key.kind()));
    write_proper_text(key.text(), out);
}

}  // namespace detail

/// Writes a value as plain JSON: arrays as nested lists, tuples as lists.
/// @throws UsageError Plain JSON cannot represent it: NaN, bytes, a space.
inline void write_plain(const Value& value, std::string& out) {
    const auto write = [&](const Value& item) { write_plain(item, out); };
    std::size_t element = 0;
    switch (value.kind()) {
        case Kind::none: out += "null"; break;
        case Kind::boolean: out += value.to<bool>() ? "true" : "false"; break;
        case Kind::integer: out += std::to_string(value.to<std::int64_t>()); break;
        case Kind::big_integer: out += value.text(); break;
        case Kind::real: detail::write_finite(value.to<double>(), out); break;
        case Kind::text: detail::write_proper_text(value.text(), out); break;
        case Kind::list:
        case Kind::tuple: detail::write_list(value.items(), out, write); break;
        case Kind::dict: {
            out += '{';
            const char* comma = "";
            for (const auto& [key, item] : value.members()) {
                out += comma;
                comma = ",";
                detail::write_plain_key(key, out);
                out += ':';
                write_plain(item, out);
            }
            out += '}';
            break;
        }
        case Kind::array:
        case Kind::scalar:
            if (!is_number(value.dtype()))
                throw UsageError("plain JSON has no dtype " + value.dtype().name);
            detail::write_nested(value, 0, element, out);
            break;
        case Kind::graph: {
            static constexpr const char* names[] = {"{\"nodes\":", ",\"edges\":",
                                                    ",\"edge_links\":"};
            for (std::size_t part = 0; part < 3; ++part) {
                out += names[part];
                write_plain(value[part], out);
            }
            out += '}';
            break;
        }
        default:
            throw UsageError(std::string("plain JSON cannot represent a value of the kind ") +
                             name_of(value.kind()));
    }
}

}  // namespace gym_http

#endif
