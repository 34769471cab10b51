/// @file
/// JSON text, read without rounding.
#ifndef GYM_HTTP_CLIENT_JSON_READING_HPP
#define GYM_HTTP_CLIENT_JSON_READING_HPP

#include <unordered_set>

#include "gym_http_client/text.hpp"

namespace gym_http {


namespace detail {

/// Maximum nesting of a signature or typed JSON: a dict has three levels.
constexpr std::size_t max_tree_depth = 200;

/// Reads JSON text, strictly.
class JsonReader {
public:
    JsonReader(std::string_view text, std::size_t max_depth) : text_(text), max_depth_(max_depth) {}

    Value whole() {
        Value value = this->value(1);
        skip_blanks();
        if (at_ != text_.size()) refuse("something follows it");
        return value;
    }

private:
    [[noreturn]] void refuse(const std::string& why) const {
        throw ProtocolError("this is not JSON of ours, at byte " + std::to_string(at_) + ": " +
                            why);
    }

    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

    void skip_blanks() {
        while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != text_.npos)
            ++at_;
    }

    bool take(char wanted) {
        skip_blanks();
        if (peek() != wanted || at_ == text_.size()) return false;
        ++at_;
        return true;
    }

    void expect(char wanted) {
        if (!take(wanted)) refuse(std::string("expected ") + wanted);
    }

    Value value(std::size_t depth) {
        skip_blanks();
        switch (peek()) {
            case '{': return object(depth);
            case '[': return array(depth);
            case '"': return Value(string());
            case 't': return word("true", Value(true));
            case 'f': return word("false", Value(false));
            case 'n': return word("null", Value());
            default: return number();
        }
    }

    Value word(std::string_view name, Value value) {
        if (text_.substr(at_, name.size()) != name) refuse("there is no such word");
        at_ += name.size();
        return value;
    }

    void enter(std::size_t depth) {
        if (depth > max_depth_)
            refuse("nested deeper than " + std::to_string(max_depth_) + " levels");
        ++at_;
    }

    Value array(std::size_t depth) {
        enter(depth);
        Value::Items items;
        if (take(']')) return Value::list({});
        do {
            items.push_back(value(depth + 1));
        } while (take(','));
        expect(']');
        return Value::list(std::move(items));
    }

    Value object(std::size_t depth) {
        enter(depth);
        Value::Members members;
        std::unordered_set<std::string> names;
        if (take('}')) return Value::dict({});
        do {
            skip_blanks();
            if (peek() != '"') refuse("expected a key");
            std::string name = string();
            if (!names.insert(name).second)
                refuse("the key \"" + name.substr(0, 60) + "\" is there twice");
            expect(':');
            Value member = value(depth + 1);
            members.emplace_back(Value(std::move(name)), std::move(member));
        } while (take(','));
        expect('}');
        return Value::dict(std::move(members));
    }

    std::size_t digits() {
        const std::size_t first = at_;
        while (peek() >= '0' && peek() <= '9') ++at_;
        return at_ - first;
    }

    Value number() {
        const std::size_t first = at_;
        if (peek() == '-') ++at_;
        const bool zero = peek() == '0';
        const std::size_t whole = digits();
        if (whole == 0 || (zero && whole > 1)) refuse("expected a value");
        bool real = false;
        if (peek() == '.') {
            real = true;
            ++at_;
            if (digits() == 0) refuse("expected a digit");
        }
        if (peek() == 'e' || peek() == 'E') {
            real = true;
            ++at_;
            if (peek() == '+' || peek() == '-') ++at_;
            if (digits() == 0) refuse("expected a digit");
        }
        const std::string_view outcome = text_.substr(first, at_ - first);
        if (!real) {
            if (whole > 4300) refuse("an integer has more than 4300 digits");
            return Value::integer(outcome);
        }
        return this->real(outcome);
    }

    Value real(std::string_view outcome) const {
        double number = 0;
        const auto read = std::from_chars(outcome.data(), outcome.data() + outcome.size(), number);
        // strtod leaves a number out of range unchanged, but distinguishes small from large.
        if (read.ec == std::errc::result_out_of_range)
            number = std::strtod(std::string(outcome).c_str(), nullptr);
        if (!std::isfinite(number)) refuse("a number is beyond all floats");
        return Value(number);
    }

    std::string string() {
        std::string content;
        for (++at_; peek() != '"' || at_ == text_.size();) {
            if (at_ == text_.size()) refuse("a string has no end");
            if (static_cast<unsigned char>(peek()) < 0x20) refuse("a string has a control character");
            if (peek() == '\\') {
                escape(content);
                continue;
            }
            const std::size_t size = character_size(text_.substr(at_));
            const std::string_view character = text_.substr(at_, size);
            const bool surrogate = size == 3 && character[0] == '\xed' &&
                                   static_cast<unsigned char>(character[1]) >= 0xa0;
            if (size == 0 || surrogate) refuse("a string is not in UTF-8");
            content += character;
            at_ += size;
        }
        ++at_;
        return content;
    }

    void escape(std::string& content) {
        static constexpr std::string_view names = "\"\\/bfnrt";
        static constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
        ++at_;
        const auto name = names.find(peek());
        if (name != names.npos && at_ < text_.size()) {
            content += meanings[name];
            ++at_;
            return;
        }
        if (peek() != 'u') refuse("a string has an escape that there is not");
        std::uint32_t code = unit();
        if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_, 2) == "\\u") {
            const std::size_t before = at_++;
            const std::uint32_t low = unit();
            if (low >= 0xdc00 && low < 0xe000)
                code = 0x10000 + ((code - 0xd800) << 10U) + (low - 0xdc00);
            else
                at_ = before;
        }
        append(code, content);
    }

    std::uint32_t unit() {
        const std::string_view hex = text_.substr(std::min(at_ + 1, text_.size()), 4);
        std::uint32_t code = 0;
        const auto read = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
        if (hex.size() != 4 || read.ptr != hex.data() + 4) refuse("expected four hex digits");
        at_ += 5;
        return code;
    }

    static void append(std::uint32_t code, std::string& content) {
        const auto add = [&](std::uint32_t byte) { content += static_cast<char>(byte); };
        if (code < 0x80) return add(code);
        if (code < 0x800) {
            add(0xc0 | code >> 6U);
        } else {
            if (code < 0x10000) {
                add(0xe0 | code >> 12U);
            } else {
                add(0xf0 | code >> 18U);
                add(0x80 | (code >> 12U & 63U));
            }
            add(0x80 | (code >> 6U & 63U));
        }
        add(0x80 | (code & 63U));
    }

    std::string_view text_;
    std::size_t max_depth_;
    std::size_t at_ = 0;
};

}  // namespace detail

/// Parses JSON: null, bools, ints of any size, floats, strings, lists and dicts.
/// @throws ProtocolError It is malformed, has a duplicate key, or is nested too deep.
inline Value read_json(std::string_view text, std::size_t max_depth = 128) {
    return detail::JsonReader(text, max_depth).whole();
}

}  // namespace gym_http

#endif
