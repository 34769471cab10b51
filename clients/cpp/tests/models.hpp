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
inline Bytes elements(const Json& outcome) {
    if (outcome.contains("bytes")) return unhex(outcome["bytes"]);
    const std::string dtype = outcome["dtype"];
    const std::size_t size = std::stoul(dtype.substr(2));
    Bytes bytes;
    for (const Json& item : outcome["items"]) {
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
    const Json& outcome = member.value();
    if (kind == "none") return Value();
    if (kind == "bool") return Value(outcome.get<bool>());
    if (kind == "int") return Value::integer(outcome.get<std::string>());
    if (kind == "float") return Value(bits_to_double(outcome));
    if (kind == "str") return Value(outcome.get<std::string>());
    if (kind == "wtf8") {
        const Bytes bytes = unhex(outcome);
        return Value(std::string(bytes.begin(), bytes.end()));
    }
    if (kind == "bytes") return Value::bytes(unhex(outcome));
    if (kind == "list") return Value::list(build_all(outcome));
    if (kind == "tuple") return Value::tuple(build_all(outcome));
    if (kind == "dict") {
        Value::Members members;
        for (const Json& pair : outcome) members.emplace_back(build(pair[0]), build(pair[1]));
        return Value::dict(std::move(members));
    }
    if (kind == "nd") return Value::array(outcome["dtype"], outcome["shape"], elements(outcome));
    if (kind == "ns") return Value::scalar(outcome["dtype"], elements(outcome));
    if (kind == "oa") return Value::objects(outcome["shape"], build_all(outcome["items"]));
    if (kind == "graph")
        return Value::graph(build(outcome["nodes"]), build(outcome["edges"]), build(outcome["edge_links"]));
    if (kind == "space") return Value::space(outcome);
    if (kind == "autoreset") return Value::autoreset(outcome);
    if (kind == "complex")
        return Value(std::complex<double>(bits_to_double(outcome[0]), bits_to_double(outcome[1])));
    if (kind == "unsent") return Value(gym_http::Unsent{outcome["repr"], outcome["type"]});
    throw std::runtime_error("a model of an unknown kind: " + kind);
}

inline bool match_all(const Json& models, const Value::Items& values);

inline bool same_array(const Json& outcome, const Value& value) {
    const auto raw = value.raw();
    return value.dtype().name == outcome["dtype"] && elements(outcome) == Bytes(raw.begin(), raw.end());
}

// Whether a decoded value equals a model.
inline bool matches(const Json& model, const Value& value) {
    const auto member = model.items().begin();
    const std::string& kind = member.key();
    const Json& outcome = member.value();
    switch (value.kind()) {
        case Kind::none: return kind == "none";
        case Kind::boolean: return kind == "bool" && outcome == value.to<bool>();
        case Kind::integer:
            return kind == "int" && outcome == std::to_string(value.to<std::int64_t>());
        case Kind::big_integer: return kind == "int" && outcome == value.text();
        case Kind::real: return kind == "float" && outcome == double_to_bits(value.to<double>());
        case Kind::text:
            return (kind == "str" && outcome == value.text()) ||
                   (kind == "wtf8" && outcome == hex(value.text()));
        case Kind::bytes: return kind == "bytes" && outcome == hex(value.raw());
        case Kind::list: return kind == "list" && match_all(outcome, value.items());
        case Kind::tuple: return kind == "tuple" && match_all(outcome, value.items());
        case Kind::dict: {
            if (kind != "dict" || outcome.size() != value.size()) return false;
            for (std::size_t at = 0; at < outcome.size(); ++at) {
                const auto& [key, item] = value.members()[at];
                if (!matches(outcome[at][0], key) || !matches(outcome[at][1], item)) return false;
            }
            return true;
        }
        case Kind::array:
            return kind == "nd" && outcome["shape"] == Json(value.shape()) &&
                   same_array(outcome, value);
        case Kind::scalar: return kind == "ns" && same_array(outcome, value);
        case Kind::objects:
            return kind == "oa" && outcome["shape"] == Json(value.shape()) &&
                   match_all(outcome["items"], value.items());
        case Kind::graph:
            return kind == "graph" && matches(outcome["nodes"], value[0]) &&
                   matches(outcome["edges"], value[1]) && matches(outcome["edge_links"], value[2]);
        case Kind::space: return kind == "space" && outcome == value.description();
        case Kind::autoreset: return kind == "autoreset" && outcome == value.text();
        case Kind::complex:
            return kind == "complex" && outcome[0] == double_to_bits(value.complex().real()) &&
                   outcome[1] == double_to_bits(value.complex().imag());
        case Kind::unsent:
            return kind == "unsent" && outcome["repr"] == value.unsent().repr &&
                   outcome["type"] == value.unsent().type;
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
