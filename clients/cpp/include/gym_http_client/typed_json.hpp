/// @file
/// Typed JSON: values of which JSON has no word are objects with a `$t`.
#ifndef GYM_HTTP_CLIENT_TYPED_JSON_HPP
#define GYM_HTTP_CLIENT_TYPED_JSON_HPP

#include "gym_http_client/checking.hpp"

namespace gym_http {

namespace detail {

/// Makes values of trees of JSON.
class TypedReader {
public:
    Value value(const Value& tree, int depth) {
        if (tree.kind() == Kind::list) return Value::list(items(tree, depth));
        if (tree.kind() != Kind::dict) return tree;
        const Value* tag = tree.find("$t");
        if (tag == nullptr) return members(tree, depth);
        if (tag->kind() != Kind::text) refuse("a \"$t\" that is none of ours");
        return tagged(tag->text(), tree, depth);
    }

    Value key(const Value& tree, int depth) {
        Value key = value(tree, depth);
        if (!may_be_key(key)) refuse("a key that no dict may have");
        return key;
    }

private:
    [[noreturn]] static void refuse(const std::string& what) {
        throw ProtocolError("a value has " + what);
    }

    static void check_depth(int depth) {
        if (depth > 64) refuse("more than 64 levels");
    }

    Value::Items items(const Value& tree, int depth) {
        if (tree.kind() != Kind::list) refuse("something else where a list is due");
        check_depth(depth);
        Value::Items items;
        items.reserve(tree.size());
        for (const Value& item : tree.items()) items.push_back(value(item, depth + 1));
        return items;
    }

    Value members(const Value& tree, int depth) {
        check_depth(depth);
        Value::Members members;
        members.reserve(tree.size());
        for (const auto& [name, item] : tree.members())
            members.emplace_back(name, value(item, depth + 1));
        return Value::dict(std::move(members));
    }

    static const Value& field(const Value& tree, const char* name, std::size_t fields) {
        const Value* found = tree.find(name);
        if (found == nullptr || tree.size() != fields) refuse("other fields than its \"$t\" has");
        return *found;
    }

    static const std::string& text_of(const Value& tree) {
        if (tree.kind() != Kind::text) refuse("something else where a string is due");
        return tree.text();
    }

    Value tagged(const std::string& tag, const Value& tree, int depth) {
        if (tag == "graph")
            return (check_depth(depth),
                    Value::graph(value(field(tree, "nodes", 4), depth + 1),
                                 value(field(tree, "edges", 4), depth + 1),
                                 value(field(tree, "edge_links", 4), depth + 1)));
        const bool is_array = tag == "nd";
        if (is_array || tag == "ns" || tag == "oa") {
            const std::size_t fields = is_array ? 4 : 3;
            const Value& content = field(tree, "v", fields);
            if (tag == "oa") return objects(field(tree, "s", fields), content, depth);
            const Value none = Value::list({});
            return array(field(tree, "d", fields),
                         is_array ? field(tree, "s", fields) : none, content, is_array);
        }
        const Value& content = field(tree, "v", 2);
        if (tag == "int") return read_decimal(text_of(content));
        if (tag == "float") return real(text_of(content));
        if (tag == "str") return text(text_of(content));
        if (tag == "bytes") return Value::bytes(read_base64(text_of(content)));
        if (tag == "tuple") return Value::tuple(items(content, depth));
        if (tag == "dict") return dict(content, depth);
        if (tag == "space") return read_space_value(content);
        if (tag == "autoreset") return read_autoreset(content);
        refuse("a \"$t\" that is none of ours: " + tag.substr(0, 40));
    }

    static Value real(const std::string& text) {
        if (text == "nan") return Value(std::numeric_limits<double>::quiet_NaN());
        if (text == "inf") return Value(HUGE_VAL);
        if (text == "-inf") return Value(-HUGE_VAL);
        if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != text.npos)
            refuse("a float that is none");
        const std::uint64_t bits = std::stoull(text, nullptr, 16);
        double number = 0;
        std::memcpy(&number, &bits, sizeof number);
        return Value(number);
    }

    static Value text(const std::string& base64) {
        const Bytes content = read_base64(base64);
        std::string text(content.begin(), content.end());
        if (utf8_of(text) == Utf8::none) refuse("a str that is not in UTF-8");
        return Value(std::move(text));
    }

    static Value array(const Value& dtype, const Value& shape, const Value& content,
                       bool is_array) {
        auto type = read_array_type(dtype, shape, !is_array);
        auto data = std::make_shared<const Bytes>(read_base64(text_of(content)));
        if (data->size() != type->count * type->dtype.item_size)
            refuse("another number of bytes than its dtype and shape need");
        check_elements(type->dtype, {data->data(), data->size()});
        return Value::view(std::move(type), data->data(), data, !is_array);
    }

    Value objects(const Value& sizes, const Value& content, int depth) {
        Shape shape = read_shape(sizes, 8);
        Value::Items all = items(content, depth);
        if (count_of(shape, all.size() + 1) != all.size())
            refuse("another number of items than its shape needs");
        return Value::objects(std::move(shape), std::move(all));
    }

    Value dict(const Value& content, int depth) {
        if (content.kind() != Kind::list) refuse("something else where a list is due");
        check_depth(depth);
        std::vector<Value> keys;
        Value::Members members;
        for (const Value& pair : content.items()) {
            if (pair.kind() != Kind::list || pair.size() != 2)
                refuse("something else where a pair is due");
            keys.push_back(key(pair[0], depth + 1));
            members.emplace_back(keys.back(), value(pair[1], depth + 1));
        }
        check_keys(keys);
        return Value::dict(std::move(members));
    }
};

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

/// Reads typed JSON. @throws ProtocolError It is none.
inline Value read_typed_json(std::string_view text) {
    return detail::TypedReader().value(read_json(text, detail::max_tree_depth), 1);
}

/// Writes typed JSON, compact. @throws UsageError A string is not in UTF-8.
inline std::string write_typed_json(const Value& value) {
    std::string text;
    detail::write_typed(value, text);
    return text;
}

}  // namespace gym_http

#endif
