/// @file
/// Typed JSON: values that JSON does not have are objects with a `$t`.
#ifndef GYM_HTTP_CLIENT_TYPED_JSON_HPP
#define GYM_HTTP_CLIENT_TYPED_JSON_HPP

#include "gym_http_client/typed_reading.hpp"

namespace gym_http {

namespace detail {

inline void write_typed(const Value& value, std::string& out);

inline void write_tag(const char* tag, std::string& out) {
    out += "{\"$t\":\"";
    out += tag;
    out += '"';
}

inline void write_typed_text(const std::string& text, std::string& out) {
    const Utf8 written = utf8_of(text);
    if (written == Utf8::proper) return write_text(text, out);
    if (written == Utf8::none) throw UsageError("a string is not in UTF-8");
    write_tag("str", out);
    const auto* data = reinterpret_cast<const unsigned char*>(text.data());
    out += ",\"v\":\"" + write_base64({data, text.size()}) + "\"}";
}

inline void write_typed_real(double number, std::string& out) {
    if (std::isfinite(number)) {
        out += write_real(number);
        return;
    }
    write_tag("float", out);
    std::uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    if (std::isinf(number)) {
        out += number > 0 ? ",\"v\":\"inf\"}" : ",\"v\":\"-inf\"}";
    } else if (bits == 0x7ff8000000000000ULL) {
        out += ",\"v\":\"nan\"}";
    } else {
        out += ",\"v\":\"";
        for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[bits >> shift & 15U];
        out += "\"}";
    }
}

inline void write_typed_integer(const Value& value, std::string& out) {
    const bool is_big = value.kind() == Kind::big_integer;
    const std::int64_t integer = is_big ? 0 : value.to<std::int64_t>();
    constexpr std::int64_t limit = std::int64_t(1) << 53;
    if (!is_big && integer <= limit && integer >= -limit) {
        out += std::to_string(integer);
        return;
    }
    write_tag("int", out);
    out += ",\"v\":\"" + (is_big ? value.text() : std::to_string(integer)) + "\"}";
}

inline void write_typed_dict(const Value& value, std::string& out) {
    bool plain = true;
    for (const auto& member : value.members()) {
        const Value& key = member.first;
        plain = plain && key.kind() == Kind::text && key.text() != "$t" &&
                utf8_of(key.text()) == Utf8::proper;
    }
    const auto write = [&](const auto& member) {
        if (!plain) out += '[';
        write_typed(member.first, out);
        out += plain ? ':' : ',';
        write_typed(member.second, out);
        if (!plain) out += ']';
    };
    const std::size_t start = out.size();
    if (!plain) {
        write_tag("dict", out);
        out += ",\"v\":";
        write_list(value.members(), out, write);
        out += '}';
        return;
    }
    write_list(value.members(), out, write);
    out[start] = '{';
    out.back() = '}';
}

inline void write_typed_array(const Value& value, std::string& out) {
    const bool is_array = value.kind() == Kind::array;
    write_tag(is_array ? "nd" : "ns", out);
    out += ",\"d\":\"" + value.dtype().name + "\"";
    if (is_array) {
        out += ",\"s\":";
        write_list(value.shape(), out, [&](std::size_t size) { out += std::to_string(size); });
    }
    out += ",\"v\":\"" + write_base64(value.raw()) + "\"}";
}

inline void write_typed(const Value& value, std::string& out) {
    const auto write = [&](const Value& item) { write_typed(item, out); };
    switch (value.kind()) {
        case Kind::none: out += "null"; break;
        case Kind::boolean: out += value.to<bool>() ? "true" : "false"; break;
        case Kind::integer:
        case Kind::big_integer: write_typed_integer(value, out); break;
        case Kind::real: write_typed_real(value.to<double>(), out); break;
        case Kind::complex:
            write_tag("complex", out);
            out += ",\"v\":[";
            write_typed_real(value.complex().real(), out);
            out += ',';
            write_typed_real(value.complex().imag(), out);
            out += "]}";
            break;
        case Kind::unsent:
            write_tag("unsent", out);
            out += ",\"v\":[";
            write_typed_text(value.unsent().repr, out);
            out += ',';
            write_typed_text(value.unsent().type, out);
            out += "]}";
            break;
        case Kind::text: write_typed_text(value.text(), out); break;
        case Kind::bytes:
            write_tag("bytes", out);
            out += ",\"v\":\"" + write_base64(value.raw()) + "\"}";
            break;
        case Kind::list: write_list(value.items(), out, write); break;
        case Kind::tuple:
            write_tag("tuple", out);
            out += ",\"v\":";
            write_list(value.items(), out, write);
            out += '}';
            break;
        case Kind::dict: write_typed_dict(value, out); break;
        case Kind::array:
        case Kind::scalar: write_typed_array(value, out); break;
        case Kind::objects:
            write_tag("oa", out);
            out += ",\"s\":";
            write_list(value.shape(), out, [&](std::size_t size) { out += std::to_string(size); });
            out += ",\"v\":";
            write_list(value.items(), out, write);
            out += '}';
            break;
        case Kind::graph: {
            static constexpr const char* names[] = {",\"nodes\":", ",\"edges\":",
                                                    ",\"edge_links\":"};
            write_tag("graph", out);
            for (std::size_t part = 0; part < 3; ++part) {
                out += names[part];
                write_typed(value[part], out);
            }
            out += '}';
            break;
        }
        case Kind::space:
            write_tag("space", out);
            out += ",\"v\":" + write_json(value.description()) + "}";
            break;
        case Kind::autoreset:
            write_tag("autoreset", out);
            out += ",\"v\":";
            write_text(value.text(), out);
            out += '}';
            break;
    }
}

}  // namespace detail

/// Writes typed JSON, compact. @throws UsageError A string is not in UTF-8.
inline std::string write_typed_json(const Value& value) {
    std::string text;
    detail::write_typed(value, text);
    return text;
}

}  // namespace gym_http

#endif
