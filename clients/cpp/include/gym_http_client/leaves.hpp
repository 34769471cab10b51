/// @file
/// Leaves: the bytes of a value, decoded by its signature.
#ifndef GYM_HTTP_CLIENT_LEAVES_HPP
#define GYM_HTTP_CLIENT_LEAVES_HPP

#include "gym_http_client/signature.hpp"

namespace gym_http::detail {

/// Reads the leaves of a message from a position on.
class LeafReader {
public:
    LeafReader(span<const unsigned char> message, std::size_t start,
               std::shared_ptr<const void> owner)
        : message_(message), at_(start), owner_(std::move(owner)) {}

    /// Decodes a whole value, whose leaves are the rest of the bytes.
    Value whole(const Signature& signature) {
        Value value = read(signature);
        if (at_ != message_.size())
            throw ProtocolError("a value ends at byte " + std::to_string(at_) + ", but " +
                                std::to_string(message_.size()) + " bytes arrived");
        return value;
    }

private:
    Value read(const Signature& signature) {
        switch (signature.kind) {
            case Kind::none: return Value();
            case Kind::boolean: return boolean();
            case Kind::integer: return Value(word<std::int64_t>());
            case Kind::real: return Value(word<double>());
            case Kind::complex: {
                const auto real = word<double>();
                return Value(std::complex<double>(real, word<double>()));
            }
            case Kind::unsent: {
                std::string repr = text().text();
                return Value(Unsent{std::move(repr), text().text()});
            }
            case Kind::big_integer: return decimal();
            case Kind::text: return text();
            case Kind::bytes: {
                const auto content = varying();
                return Value::bytes(content.to_vector());
            }
            case Kind::list: return Value::list(items(signature));
            case Kind::tuple: return Value::tuple(items(signature));
            case Kind::objects: return Value::objects(signature.shape, items(signature));
            case Kind::graph: {
                auto parts = items(signature);
                return Value::graph(std::move(parts[0]), std::move(parts[1]),
                                    std::move(parts[2]));
            }
            case Kind::dict: {
                Value::Members members;
                members.reserve(signature.parts.size());
                for (std::size_t each = 0; each < signature.parts.size(); ++each)
                    members.emplace_back(signature.keys[each], read(signature.parts[each]));
                return Value::dict(std::move(members));
            }
            case Kind::array:
            case Kind::scalar: return array(signature);
            default: return signature.constant;
        }
    }

    Value::Items items(const Signature& signature) {
        Value::Items items;
        items.reserve(signature.parts.size());
        for (const Signature& part : signature.parts) items.push_back(read(part));
        return items;
    }

    Value boolean() {
        const auto flag = word<std::uint64_t>();
        if (flag > 1) throw ProtocolError("a bool is neither true (1) nor false (0)");
        return Value(flag == 1);
    }

    Value decimal() {
        const auto content = varying();
        const std::string digits(content.begin(), content.end());
        return read_decimal(digits);
    }

    Value text() {
        const auto content = varying();
        std::string text(content.begin(), content.end());
        if (utf8_of(text) == Utf8::none) throw ProtocolError("a str is not in UTF-8");
        return Value(std::move(text));
    }

    Value array(const Signature& signature) {
        const ArrayType& type = *signature.type;
        const auto content = leaf(type.count * type.dtype.item_size);
        check_elements(type.dtype, content);
        return Value::view(signature.type, content.data(), owner_,
                           signature.kind == Kind::scalar);
    }

    template <class T>
    T word() {
        if (message_.size() - at_ < 8) refuse_end(8);
        T value;
        std::memcpy(&value, message_.data() + at_, 8);
        at_ += 8;
        return value;
    }

    span<const unsigned char> varying() {
        const auto size = word<std::uint64_t>();
        if (size > message_.size()) refuse_end(size);
        return leaf(static_cast<std::size_t>(size));
    }

    span<const unsigned char> leaf(std::size_t size) {
        const std::size_t left = message_.size() - at_;
        const std::size_t padding = padding_of(size);
        if (size > left || padding > left - size) refuse_end(size);
        const span<const unsigned char> content(message_.data() + at_, size);
        at_ += size;
        for (const std::size_t end = at_ + padding; at_ < end; ++at_) {
            if (message_[at_] != 0)
                throw ProtocolError("a value has padding at byte " + std::to_string(at_) +
                                    " that is not zero");
        }
        return content;
    }

    [[noreturn]] void refuse_end(std::uint64_t size) const {
        throw ProtocolError("a value needs " + std::to_string(size) + " bytes at byte " +
                            std::to_string(at_) + ", but only " +
                            std::to_string(message_.size()) + " arrived");
    }

    span<const unsigned char> message_;
    std::size_t at_;
    std::shared_ptr<const void> owner_;
};

}  // namespace gym_http::detail

#endif
