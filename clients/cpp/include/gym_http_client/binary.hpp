/// @file
/// The binary form: a signature in JSON, then the bytes of its leaves.
#ifndef GYM_HTTP_CLIENT_BINARY_HPP
#define GYM_HTTP_CLIENT_BINARY_HPP

#include "gym_http_client/leaves.hpp"

namespace gym_http {

namespace detail {

/// An encoded value: its signature, padded with blanks, and its leaves.
struct Parts {
    std::string signature{};
    std::string leaves{};
};

/// Encodes values.
class Signer {
public:
    Parts take_apart(const Value& value) {
        sign(value, 1);
        parts_.signature.append(padding_of(parts_.signature.size()), ' ');
        if (parts_.signature.size() > max_signature_bytes)
            throw UsageError("a value has more parts than a signature may have");
        return std::move(parts_);
    }

private:
    void word(const void* number) { parts_.leaves.append(static_cast<const char*>(number), 8); }

    void leaf(const void* data, std::size_t size) {
        if (size != 0) parts_.leaves.append(static_cast<const char*>(data), size);
        parts_.leaves.append(padding_of(size), '\0');
    }

    void varying(const void* data, std::size_t size) {
        const std::uint64_t outcome = size;
        word(&outcome);
        leaf(data, size);
    }

    void text(const std::string& text) {
        if (utf8_of(text) == Utf8::none) throw UsageError("a string is not in UTF-8");
        varying(text.data(), text.size());
    }

    void items(const Value& value, int depth) {
        if (depth > max_depth) throw UsageError("a value is nested deeper than 64 levels");
        write_list(value.items(), parts_.signature,
                   [&](const Value& item) { sign(item, depth + 1); });
    }

    void dict(const Value& value, int depth) {
        if (depth > max_depth) throw UsageError("a value is nested deeper than 64 levels");
        std::vector<Value> keys;
        write_list(value.members(), parts_.signature, [&](const auto& member) {
            if (!may_be_key(member.first))
                throw UsageError("a dict has an invalid key");
            keys.push_back(member.first);
            parts_.signature += '[';
            write_typed(member.first, parts_.signature);
            parts_.signature += ',';
            sign(member.second, depth + 1);
            parts_.signature += ']';
        });
        try {
            check_keys(keys);
        } catch (const ProtocolError& error) {
            throw UsageError(error.message());
        }
    }

    void array(const Value& value) {
        std::string& out = parts_.signature;
        if (value.kind() == Kind::scalar) {
            out += "{\"ns\":\"" + value.dtype().name + "\"}";
        } else {
            out += "{\"nd\":[\"" + value.dtype().name + "\",";
            write_list(value.shape(), out,
                       [&](std::size_t size) { out += std::to_string(size); });
            out += "]}";
        }
        leaf(value.raw().data(), value.raw().size());
    }

    void sign(const Value& value, int depth) {
        std::string& out = parts_.signature;
        switch (value.kind()) {
            case Kind::none: out += "\"none\""; return;
            case Kind::boolean: {
                const std::uint64_t flag = value.to<bool>() ? 1 : 0;
                out += "\"bool\"";
                return word(&flag);
            }
            case Kind::integer:
                out += "\"int\"";
                return word(&std::get<std::int64_t>(value.held()));
            case Kind::real:
                out += "\"float\"";
                return word(&std::get<double>(value.held()));
            case Kind::big_integer:
                out += "\"bigint\"";
                return varying(value.text().data(), value.text().size());
            case Kind::complex: {
                const double parts[] = {value.complex().real(), value.complex().imag()};
                out += "\"complex\"";
                return leaf(parts, sizeof parts);
            }
            case Kind::unsent:
                out += "\"unsent\"";
                text(value.unsent().repr);
                return text(value.unsent().type);
            case Kind::text:
                out += "\"str\"";
                return text(value.text());
            case Kind::bytes:
                out += "\"bytes\"";
                return varying(value.raw().data(), value.raw().size());
            case Kind::array:
            case Kind::scalar: return array(value);
            case Kind::space: out += "{\"space\":" + write_json(value.description()); break;
            case Kind::autoreset:
                out += "{\"autoreset\":\"" +
                       value.text() + "\"";
                break;
            case Kind::list: out += "{\"list\":"; return close(value, depth);
            case Kind::tuple: out += "{\"tuple\":"; return close(value, depth);
            case Kind::graph: out += "{\"graph\":"; return close(value, depth);
            case Kind::dict:
                out += "{\"dict\":";
                dict(value, depth);
                break;
            case Kind::objects:
                out += "{\"oa\":[";
                write_list(value.shape(), out,
                           [&](std::size_t size) { out += std::to_string(size); });
                out += ',';
                items(value, depth);
                out += ']';
                break;
        }
        out += '}';
    }

    void close(const Value& value, int depth) {
        items(value, depth);
        parts_.signature += '}';
    }

    Parts parts_{};
};

inline Parts take_apart(const Value& value) { return Signer().take_apart(value); }

/// Appends a number of 4 bytes.
inline void append_u32(std::string& out, std::uint32_t number) {
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// The two numbers with which a value begins.
struct ValueHeader {
    std::uint32_t size = 0;    ///< Of the signature; 0 if it was sent before.
    std::uint32_t number = 0;  ///< The number of the signature; 0 if it has none.

    static ValueHeader read(span<const unsigned char> message, std::size_t start) {
        if (message.size() < start + 8)
            throw ProtocolError("a value has " + std::to_string(message.size() - start) +
                                " bytes; it has 8 at least");
        ValueHeader header;
        std::memcpy(&header, message.data() + start, sizeof header);
        if (header.size % 8 != 0 || header.size > message.size() - start - 8)
            throw ProtocolError("a value has a signature of an impossible size: " +
                                std::to_string(header.size));
        return header;
    }
};

inline std::string_view text_at(span<const unsigned char> message, std::size_t start,
                                std::size_t size) {
    return {reinterpret_cast<const char*>(message.data()) + start, size};
}

}  // namespace detail

/// Writes a value in the binary form, as over HTTP.
/// @throws UsageError A string is not in UTF-8, or it is nested too deep.
inline std::string write_binary(const Value& value) {
    const detail::Parts parts = detail::take_apart(value);
    std::string message;
    message.reserve(8 + parts.signature.size() + parts.leaves.size());
    detail::append_u32(message, static_cast<std::uint32_t>(parts.signature.size()));
    detail::append_u32(message, 0);
    return message + parts.signature + parts.leaves;
}

/// Decodes a value in the binary form, as over HTTP.
/// @param message All of it, at an address that is a multiple of 8.
/// @param owner Keeps the message alive; arrays keep a reference to it.
/// @throws ProtocolError The message is malformed.
inline Value read_binary(span<const unsigned char> message, std::shared_ptr<const void> owner) {
    const auto header = detail::ValueHeader::read(message, 0);
    if (header.number != 0) throw ProtocolError("a value has bytes 4 to 8 that are not zero");
    const auto signature = detail::compile(detail::text_at(message, 8, header.size));
    return detail::LeafReader(message, 8 + header.size, std::move(owner)).whole(*signature);
}

/// Decodes a value in the binary form, as over HTTP. @throws ProtocolError It is malformed.
inline Value read_binary(Bytes message) {
    const auto owner = std::make_shared<const Bytes>(std::move(message));
    return read_binary({owner->data(), owner->size()}, owner);
}

}  // namespace gym_http

#endif
