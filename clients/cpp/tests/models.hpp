// The model form of values in the vectors: parsed, compared and built.
#ifndef MODELS_HPP
#define MODELS_HPP

#include <gym_http_client/stream.hpp>

namespace models {

using gym_http::Bytes;
using gym_http::Json;
using gym_http::Kind;
using gym_http::Shape;
using gym_http::Value;

inline Bytes unhex(const std::string& text) {
    Bytes bytes;
    for (std::size_t at = 0; at + 1 < text.size(); at += 2)
        bytes.push_back(static_cast<unsigned char>(std::stoi(text.substr(at, 2), nullptr, 16)));
    return bytes;
}

template <class Bytes>
std::string hex(const Bytes& bytes) {
    std::string text;
    for (const auto each : bytes) {
        text += "0123456789abcdef"[static_cast<unsigned char>(each) >> 4U];
        text += "0123456789abcdef"[static_cast<unsigned char>(each) & 15U];
    }
    return text;
}

inline double bits_to_double(const std::string& text) {
    const std::uint64_t bits = std::stoull(text, nullptr, 16);
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

inline std::string double_to_bits(double number) {
    unsigned char bytes[8];
    std::memcpy(bytes, &number, 8);
    std::reverse(bytes, bytes + 8);
    return hex(std::string(bytes, bytes + 8));
}

// The bytes of an array's elements, as they are on the wire.
inline Bytes elements(const Json& told) {
    if (told.contains("bytes")) return unhex(told["bytes"]);
    const std::string dtype = told["dtype"];
    const std::size_t size = std::stoul(dtype.substr(2));
    Bytes bytes;
    for (const Json& item : told["items"]) {
        Bytes element;
        if (dtype[1] == 'f') {
            element = unhex(item);
            std::reverse(element.begin(), element.end());
        } else {
            std::uint64_t word = 0;
            if (item.is_boolean()) {
                word = item.get<bool>() ? 1 : 0;
            } else {
                const std::string digits = item;
                word = digits[0] == '-' ? static_cast<std::uint64_t>(std::stoll(digits))
                                        : std::stoull(digits);
            }
            for (std::size_t each = 0; each < size; ++each)
                element.push_back(static_cast<unsigned char>(word >> 8 * each));
        }
        bytes.insert(bytes.end(), element.begin(), element.end());
    }
    return bytes;
}

inline Value build(const Json& model);

inline Value::Items build_all(const Json& list) {
    Value::Items items;
    for (const Json& item : list) items.push_back(build(item));
    return items;
}

inline Value build(const Json& model) {
    const auto member = model.items().begin();
    const std::string& kind = member.key();
    const Json& told = member.value();
    if (kind == "none") return Value();
    if (kind == "bool") return Value(told.get<bool>());
    if (kind == "int") return Value::integer(told.get<std::string>());
    if (kind == "float") return Value(bits_to_double(told));
    if (kind == "str") return Value(told.get<std::string>());
    if (kind == "wtf8") {
        const Bytes bytes = unhex(told);
        return Value(std::string(bytes.begin(), bytes.end()));
    }
    if (kind == "bytes") return Value::bytes(unhex(told));
    if (kind == "list") return Value::list(build_all(told));
    if (kind == "tuple") return Value::tuple(build_all(told));
    if (kind == "dict") {
        Value::Members members;
        for (const Json& pair : told) members.emplace_back(build(pair[0]), build(pair[1]));
        return Value::dict(std::move(members));
    }
    if (kind == "nd") return Value::array(told["dtype"], told["shape"], elements(told));
    if (kind == "ns") return Value::scalar(told["dtype"], elements(told));
    if (kind == "oa") return Value::objects(told["shape"], build_all(told["items"]));
    if (kind == "graph")
        return Value::graph(build(told["nodes"]), build(told["edges"]), build(told["edge_links"]));
    if (kind == "space") return Value::space(told);
    if (kind == "autoreset") return Value::autoreset(told);
    throw std::runtime_error("a model of an unknown kind: " + kind);
}

inline bool match_all(const Json& models, const Value::Items& values);

inline bool same_array(const Json& told, const Value& value) {
    const auto raw = value.raw();
    return value.dtype().name == told["dtype"] && elements(told) == Bytes(raw.begin(), raw.end());
}

// Whether a decoded value equals a model.
inline bool matches(const Json& model, const Value& value) {
    const auto member = model.items().begin();
    const std::string& kind = member.key();
    const Json& told = member.value();
    switch (value.kind()) {
        case Kind::none: return kind == "none";
        case Kind::boolean: return kind == "bool" && told == value.to<bool>();
        case Kind::integer:
            return kind == "int" && told == std::to_string(value.to<std::int64_t>());
        case Kind::big_integer: return kind == "int" && told == value.text();
        case Kind::real: return kind == "float" && told == double_to_bits(value.to<double>());
        case Kind::text:
            return (kind == "str" && told == value.text()) ||
                   (kind == "wtf8" && told == hex(value.text()));
        case Kind::bytes: return kind == "bytes" && told == hex(value.raw());
        case Kind::list: return kind == "list" && match_all(told, value.items());
        case Kind::tuple: return kind == "tuple" && match_all(told, value.items());
        case Kind::dict: {
            if (kind != "dict" || told.size() != value.size()) return false;
            for (std::size_t at = 0; at < told.size(); ++at) {
                const auto& [key, item] = value.members()[at];
                if (!matches(told[at][0], key) || !matches(told[at][1], item)) return false;
            }
            return true;
        }
        case Kind::array:
            return kind == "nd" && told["shape"] == Json(value.shape()) &&
                   same_array(told, value);
        case Kind::scalar: return kind == "ns" && same_array(told, value);
        case Kind::objects:
            return kind == "oa" && told["shape"] == Json(value.shape()) &&
                   match_all(told["items"], value.items());
        case Kind::graph:
            return kind == "graph" && matches(told["nodes"], value[0]) &&
                   matches(told["edges"], value[1]) && matches(told["edge_links"], value[2]);
        case Kind::space: return kind == "space" && told == value.description();
        case Kind::autoreset: return kind == "autoreset" && told == value.text();
    }
    return false;
}

inline bool match_all(const Json& models, const Value::Items& values) {
    if (models.size() != values.size()) return false;
    for (std::size_t at = 0; at < values.size(); ++at) {
        if (!matches(models[at], values[at])) return false;
    }
    return true;
}

}  // namespace models

#endif
