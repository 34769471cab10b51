/// @file
/// Signatures: the shape of a value's tree.
#ifndef GYM_HTTP_CLIENT_SIGNATURE_HPP
#define GYM_HTTP_CLIENT_SIGNATURE_HPP

#include "gym_http_client/typed_json.hpp"

namespace gym_http::detail {

/// How deep lists, tuples, dicts and the like may be nested.
constexpr int max_depth = 64;
constexpr std::size_t max_signature_bytes = std::size_t(1) << 20U;

/// Counts leaves up to a multiple of 8 bytes.
inline std::size_t padding_of(std::size_t size) { return (8 - size % 8) % 8; }

/// A signature, compiled: read once, used for each value that has it.
struct Signature {
    Kind kind = Kind::none;
    std::vector<Signature> parts{};           ///< Of containers.
    std::vector<Value> keys{};                ///< Of a dict.
    std::shared_ptr<const ArrayType> type{};  ///< Of an array or scalar.
    Shape shape{};                            ///< Of an array of objects.
    Value constant{};                         ///< Values without a leaf.
};

class SignatureReader {
public:
    Signature read(const Value& tree, int depth) {
        if (depth > max_depth + 1)
            throw ProtocolError("a value is nested deeper than 64 levels");
        if (tree.kind() == Kind::text) return leaf(tree.text());
        if (tree.kind() != Kind::dict || tree.size() != 1) refuse();
        const auto& [tag, content] = tree.members().front();
        const std::string& name = tag.text();
        if (name == "nd" || name == "ns") return array(name == "nd", content);
        if (name == "list") return made_of(Kind::list, list_of(content), depth);
        if (name == "tuple") return made_of(Kind::tuple, list_of(content), depth);
        if (name == "dict") return dict(content, depth);
        if (name == "oa") return objects(list_of(content, 2), depth);
        if (name == "graph") return made_of(Kind::graph, list_of(content, 3), depth);
        if (name == "space" || name == "autoreset") return constant(name, content);
        refuse();
    }

private:
    [[noreturn]] static void refuse() {
        throw ProtocolError("a value has an unknown signature");
    }

    static Signature leaf(const std::string& name) {
        static constexpr std::pair<const char*, Kind> leaves[] = {
            {"none", Kind::none},   {"bool", Kind::boolean},
            {"int", Kind::integer}, {"float", Kind::real},
            {"str", Kind::text},    {"bigint", Kind::big_integer},
            {"bytes", Kind::bytes}, {"complex", Kind::complex},
            {"unsent", Kind::unsent}};
        Signature signature;
        for (const auto& [known, kind] : leaves) {
            if (name == known) {
                signature.kind = kind;
                return signature;
            }
        }
        refuse();
    }

    static const Value::Items& list_of(const Value& tree, std::size_t size = 0) {
        if (tree.kind() != Kind::list || (size != 0 && tree.size() != size)) refuse();
        return tree.items();
    }

    static Signature array(bool is_array, const Value& content) {
        Signature signature;
        signature.kind = is_array ? Kind::array : Kind::scalar;
        if (is_array) {
            const auto& pair = list_of(content, 2);
            signature.type = read_array_type(pair[0], pair[1]);
        } else {
            signature.type = read_array_type(content, Value::list({}), true);
        }
        return signature;
    }

    Signature made_of(Kind kind, const Value::Items& trees, int depth) {
        check_depth(depth);
        Signature signature;
        signature.kind = kind;
        signature.parts.reserve(trees.size());
        for (const Value& tree : trees) signature.parts.push_back(read(tree, depth + 1));
        return signature;
    }

    Signature dict(const Value& content, int depth) {
        check_depth(depth);
        Signature signature;
        signature.kind = Kind::dict;
        for (const Value& pair : list_of(content)) {
            const auto& two = list_of(pair, 2);
            signature.keys.push_back(TypedReader().key(two[0], depth + 1));
            signature.parts.push_back(read(two[1], depth + 1));
        }
        check_keys(signature.keys);
        return signature;
    }

    Signature objects(const Value::Items& pair, int depth) {
        Signature signature = made_of(Kind::objects, list_of(pair[1]), depth);
        signature.shape = read_shape(pair[0], 8);
        if (count_of(signature.shape, signature.parts.size() + 1) != signature.parts.size())
            throw ProtocolError("an array of objects has another number of items than its shape");
        return signature;
    }

    static Signature constant(const std::string& name, const Value& content) {
        Signature signature;
        signature.kind = name == "space" ? Kind::space : Kind::autoreset;
        signature.constant = name == "space" ? read_space_value(content)
                                             : read_autoreset(content);
        return signature;
    }

    static void check_depth(int depth) {
        if (depth > max_depth)
            throw ProtocolError("a value is nested deeper than 64 levels");
    }
};

/// Compiles a signature. @throws ProtocolError It is malformed.
inline std::shared_ptr<const Signature> compile(std::string_view text) {
    if (text.size() > max_signature_bytes)
        throw ProtocolError("a signature has more than 2**20 bytes");
    return std::make_shared<const Signature>(
        SignatureReader().read(read_json(text, max_tree_depth), 1));
}

}  // namespace gym_http::detail

#endif
