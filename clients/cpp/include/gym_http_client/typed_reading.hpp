/// @file
/// Typed JSON, read.
#ifndef GYM_HTTP_CLIENT_TYPED_READING_HPP
#define GYM_HTTP_CLIENT_TYPED_READING_HPP

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
        if (tag->kind() != Kind::text) refuse("an unknown \"$t\"");
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
        if (tag == "complex") {
            const auto parts = pair(content, Kind::real);
            return Value(std::complex<double>(parts[0].to<double>(), parts[1].to<double>()));
        }
        if (tag == "unsent") {
            const auto parts = pair(content, Kind::text);
            return Value(Unsent{parts[0].text(), parts[1].text()});
        }
        refuse("an unknown \"$t\": " + tag.substr(0, 40));
    }

    Value::Items pair(const Value& content, Kind kind) {
        Value::Items parts = items(content, 1);
        if (parts.size() != 2 || parts[0].kind() != kind || parts[1].kind() != kind)
            refuse(std::string("something else where two of the kind ") + name_of(kind) +
                   " are due");
        return parts;
    }

    static Value real(const std::string& text) {
        if (text == "nan") return Value(std::numeric_limits<double>::quiet_NaN());
        if (text == "inf") return Value(HUGE_VAL);
        if (text == "-inf") return Value(-HUGE_VAL);
        if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != text.npos)
            refuse("a malformed float");
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

}  // namespace detail

/// Decodes typed JSON. @throws ProtocolError It is malformed.
inline Value read_typed_json(std::string_view text) {
    return detail::TypedReader().value(read_json(text, detail::max_tree_depth), 1);
}

}  // namespace gym_http

#endif
