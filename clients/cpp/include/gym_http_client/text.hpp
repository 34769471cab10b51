/// @file
/// UTF-8, base64 and decimals.
#ifndef GYM_HTTP_CLIENT_TEXT_HPP
#define GYM_HTTP_CLIENT_TEXT_HPP

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "gym_http_client/value.hpp"

namespace gym_http::detail {

/// How a text is written.
enum class Utf8 { none, with_surrogates, proper };

/// The size of the character that begins a text, or 0 if it is malformed.
inline std::size_t character_size(std::string_view text) {
    const auto byte = [&](std::size_t at) {
        return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
    };
    const auto follows = [&](std::size_t at) { return (byte(at) & 0xc0U) == 0x80U; };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first < 0xe0) return follows(1) ? 2 : 0;
    if (first >= 0xe0 && first < 0xf0) {
        const bool shortest = first != 0xe0 || byte(1) >= 0xa0;
        return shortest && follows(1) && follows(2) ? 3 : 0;
    }
    if (first >= 0xf0 && first < 0xf5) {
        const bool fits = (first != 0xf0 || byte(1) >= 0x90) &&
                          (first != 0xf4 || byte(1) < 0x90);
        return fits && follows(1) && follows(2) && follows(3) ? 4 : 0;
    }
    return 0;
}

/// Returns the form in which a text is written.
inline Utf8 utf8_of(std::string_view text) {
    Utf8 found = Utf8::proper;
    while (!text.empty()) {
        const std::size_t size = character_size(text);
        if (size == 0) return Utf8::none;
        if (size == 3 && text[0] == '\xed' && static_cast<unsigned char>(text[1]) >= 0xa0)
            found = Utf8::with_surrogates;
        text.remove_prefix(size);
    }
    return found;
}

/// The characters of a text that is in UTF-8, each as its bytes.
inline std::vector<std::string> characters_of(std::string_view text) {
    std::vector<std::string> characters;
    while (!text.empty()) {
        const std::size_t size = std::max<std::size_t>(character_size(text), 1);
        characters.emplace_back(text.substr(0, size));
        text.remove_prefix(size);
    }
    return characters;
}

constexpr std::string_view base64_digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

inline std::string write_base64(span<const unsigned char> data) {
    std::string text;
    text.reserve((data.size() + 2) / 3 * 4);
    for (std::size_t at = 0; at < data.size(); at += 3) {
        const std::size_t left = std::min<std::size_t>(data.size() - at, 3);
        std::uint32_t word = 0;
        for (std::size_t each = 0; each < 3; ++each)
            word = word << 8U | (each < left ? data[at + each] : 0U);
        for (std::size_t each = 0; each < 4; ++each)
            text += each <= left ? base64_digits[word >> (18 - 6 * each) & 63U] : '=';
    }
    return text;
}

/// @throws ProtocolError It is not base64 as `write_base64` writes it.
inline Bytes read_base64(std::string_view text) {
    static const auto values = [] {
        std::array<std::uint8_t, 256> table{};
        table.fill(64);
        for (std::size_t digit = 0; digit < 64; ++digit)
            table[static_cast<unsigned char>(base64_digits[digit])] =
                static_cast<std::uint8_t>(digit);
        return table;
    }();
    const ProtocolError wrong("a value needs proper base64");
    if (text.size() % 4 != 0) throw wrong;
    Bytes data;
    data.reserve(text.size() / 4 * 3);
    for (std::size_t at = 0; at < text.size(); at += 4) {
        const std::string_view four = text.substr(at, 4);
        const bool last = at + 4 == text.size();
        const std::size_t digits = last ? std::min<std::size_t>(four.find('='), 4) : 4;
        if (digits < 2 || four.substr(digits).find_first_not_of('=') != four.npos)
            throw wrong;
        std::uint32_t word = 0;
        for (std::size_t each = 0; each < 4; ++each) {
            const unsigned value =
                each < digits ? values[static_cast<unsigned char>(four[each])] : 0U;
            if (value > 63) throw wrong;
            word = word << 6U | value;
        }
        // Unused bits are zero, so that the same bytes are the same text.
        if ((word & ((1U << 8 * (4 - digits)) - 1)) != 0) throw wrong;
        for (std::size_t each = 0; each + 1 < digits; ++each)
            data.push_back(static_cast<unsigned char>(word >> (16 - 8 * each) & 255U));
    }
    return data;
}

/// The shortest decimal of a float, as Python's `repr` has it. It has to be finite.
template <class T>
std::string write_real(T number) {
    char buffer[64];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, number,
                                   std::chars_format::scientific);
    const std::string_view text(buffer, static_cast<std::size_t>(end.ptr - buffer));
    const std::size_t mark = text.find('e');
    const int exponent = std::stoi(std::string(text.substr(mark + 1)));
    std::string sign = text.front() == '-' ? "-" : "";
    std::string digits;
    for (const char each : text.substr(0, mark)) {
        if (each >= '0' && each <= '9') digits += each;
    }
    if (exponent < -4 || exponent >= 16) {
        const std::string rest = digits.size() > 1 ? "." + digits.substr(1) : "";
        const std::string power = std::to_string(std::abs(exponent));
        return sign + digits[0] + rest + (exponent < 0 ? "e-" : "e+") +
               (power.size() < 2 ? "0" : "") + power;
    }
    if (exponent < 0)
        return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') +
               digits;
    const auto whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() < whole + 1) {
        digits.append(whole > digits.size() ? whole - digits.size() : 0, '0');
        return sign + digits + ".0";
    }
    return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

/// The shortest decimal that is parsed as a float16.
inline std::string write_real(half number) {
    const double exact = static_cast<double>(static_cast<float>(number));
    for (int precision = 0; precision < 5; ++precision) {
        char buffer[64];
        const auto end = std::to_chars(buffer, buffer + sizeof buffer, exact,
                                       std::chars_format::scientific, precision);
        double again = 0;
        std::from_chars(buffer, end.ptr, again);
        if (half(again).bits == number.bits) return write_real(again);
    }
    return write_real(exact);
}

/// The double that stands for an element of a dtype of floats, its shortest decimal.
inline double shortest(const Dtype& dtype, double number) {
    if (!std::isfinite(number) || dtype.item_size > 4) return number;
    const std::string text = dtype.item_size == 2 ? write_real(half(number))
                                                  : write_real(static_cast<float>(number));
    double again = 0;
    std::from_chars(text.data(), text.data() + text.size(), again);
    return again;
}

}  // namespace gym_http::detail

#endif
