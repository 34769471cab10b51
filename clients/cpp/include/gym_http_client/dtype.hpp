/// @file
/// NumPy's dtypes by their names on the wire, and the types of C++ that are the same.
#ifndef GYM_HTTP_CLIENT_DTYPE_HPP
#define GYM_HTTP_CLIENT_DTYPE_HPP

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "gym_http_client/error.hpp"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "gym_http_client hands out the wire's little-endian numbers as they are"
#endif

namespace gym_http {

/// A float16, which C++17 does not have.
struct half {
    std::uint16_t bits = 0;  ///< As IEEE 754 has them.

    half() = default;
    /// Rounds to the nearest float16, ties to even.
    explicit half(double number);
    /// The same number.
    operator float() const;
};

inline half::operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U;
    std::uint32_t exponent = (bits >> 10U) & 0x1fU;
    std::uint32_t fraction = bits & 0x3ffU;
    std::uint32_t word = sign | fraction << 13U;
    if (exponent == 31) {
        word |= 0x7f800000U;
    } else if (exponent != 0) {
        word |= (exponent + 112) << 23U;
    } else if (fraction != 0) {
        // A subnormal is normal as a float32.
        exponent = 113;
        while ((fraction & 0x400U) == 0) {
            fraction <<= 1U;
            --exponent;
        }
        word = sign | exponent << 23U | (fraction & 0x3ffU) << 13U;
    }
    float number = 0;
    std::memcpy(&number, &word, sizeof number);
    return number;
}

inline half::half(double number) {
    std::uint64_t word = 0;
    std::memcpy(&word, &number, sizeof word);
    const auto sign = static_cast<std::uint16_t>(word >> 48U & 0x8000U);
    const int exponent = static_cast<int>(word >> 52U & 0x7ffU) - 1023;
    const std::uint64_t fraction = word & 0xfffffffffffffULL;
    if (exponent == 1024) {
        bits = static_cast<std::uint16_t>(sign | 0x7c00U | (fraction != 0 ? 0x200U : 0));
        return;
    }
    if (exponent > 15 || exponent < -25) {
        bits = exponent > 15 ? static_cast<std::uint16_t>(sign | 0x7c00U) : sign;
        return;
    }
    // Below 2^-14 the exponent stays, and leading zeros use the fraction's bits.
    const int shift = exponent < -14 ? 42 - 14 - exponent : 42;
    const std::uint64_t whole = fraction | 1ULL << 52U;
    std::uint64_t kept = whole >> shift;
    const std::uint64_t rest = whole & ((1ULL << shift) - 1);
    const std::uint64_t middle = 1ULL << (shift - 1);
    if (rest > middle || (rest == middle && (kept & 1U) != 0)) ++kept;
    if (exponent >= -14) kept += static_cast<std::uint64_t>(exponent + 14) << 10U;
    bits = static_cast<std::uint16_t>(sign | kept);
}

/// The name on the wire of the dtype of a type; defined for types with a dtype.
template <class T>
struct dtype_of;

/// @cond
#define GYM_HTTP_DTYPE(type, text)                   \
    template <>                                      \
    struct dtype_of<type> {                          \
        static constexpr const char* name = text;    \
        static constexpr const char* spelt = #type;  \
    }
GYM_HTTP_DTYPE(bool, "|b1");
GYM_HTTP_DTYPE(std::int8_t, "|i1");
GYM_HTTP_DTYPE(std::int16_t, "<i2");
GYM_HTTP_DTYPE(std::int32_t, "<i4");
GYM_HTTP_DTYPE(std::int64_t, "<i8");
GYM_HTTP_DTYPE(std::uint8_t, "|u1");
GYM_HTTP_DTYPE(std::uint16_t, "<u2");
GYM_HTTP_DTYPE(std::uint32_t, "<u4");
GYM_HTTP_DTYPE(std::uint64_t, "<u8");
GYM_HTTP_DTYPE(half, "<f2");
GYM_HTTP_DTYPE(float, "<f4");
GYM_HTTP_DTYPE(double, "<f8");
GYM_HTTP_DTYPE(std::complex<float>, "<c8");
GYM_HTTP_DTYPE(std::complex<double>, "<c16");
#undef GYM_HTTP_DTYPE
/// @endcond

/// A dtype of an array or a scalar.
struct Dtype {
    std::string name{};        ///< On the wire, as `<f4`.
    char order = '|';          ///< `<` little-endian, `>` big-endian, `|` neither.
    char kind = 'V';           ///< One of `b i u f c S U m M`.
    std::size_t item_size = 0;  ///< In bytes.

    /// Parses a name.
    /// @throws ProtocolError The name is unknown.
    static Dtype read(std::string_view name);

    /// The C++ type of this dtype's elements; empty if there is no such type.
    std::string spelt() const;
};

namespace detail {

inline bool is_unit(std::string_view text) {
    // "[25s]": a number that is not 1, and a unit.
    if (text.size() < 3 || text.front() != '[' || text.back() != ']') return false;
    text = text.substr(1, text.size() - 2);
    const auto end = text.find_first_not_of("0123456789");
    if (end == std::string_view::npos || end > 10) return false;
    const std::string_view number = text.substr(0, end);
    if (!number.empty() && (number == "1" || number.front() == '0')) return false;
    for (const char* unit :
         {"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"}) {
        if (text.substr(end) == unit) return true;
    }
    return false;
}

inline std::size_t text_length(std::string_view digits) {
    if (digits.empty() || digits.size() > 7 ||
        digits.find_first_not_of("0123456789") != std::string_view::npos ||
        (digits.size() > 1 && digits.front() == '0'))
        return static_cast<std::size_t>(-1);
    return std::stoul(std::string(digits));
}

inline bool fill_numbers(Dtype& dtype, std::string_view rest) {
    static constexpr std::string_view sizes[][2] = {
        {"b", " 1 "},       {"i", " 1 2 4 8 "},  {"u", " 1 2 4 8 "},
        {"f", " 2 4 8 16 "}, {"c", " 8 16 "},
    };
    for (const auto& each : sizes) {
        if (each[0].front() != dtype.kind) continue;
        const std::string padded = " " + std::string(rest) + " ";
        if (rest.empty() || rest.size() > 2 ||
            each[1].find(padded) == std::string_view::npos)
            return false;
        dtype.item_size = std::stoul(std::string(rest));
        return (dtype.order == '|') == (dtype.item_size == 1);
    }
    return false;
}

inline bool fill(Dtype& dtype, std::string_view rest) {
    constexpr std::size_t most = 1U << 20U;
    if (dtype.kind == 'm' || dtype.kind == 'M') {
        dtype.item_size = 8;
        return dtype.order != '|' && !rest.empty() && rest.front() == '8' &&
               (rest.size() == 1 || is_unit(rest.substr(1)));
    }
    if (dtype.kind == 'S' || dtype.kind == 'U') {
        const std::size_t length = text_length(rest);
        if (length > most) return false;
        dtype.item_size = dtype.kind == 'U' ? 4 * length : length;
        return dtype.item_size <= most && (dtype.order == '|') == (dtype.kind == 'S');
    }
    return fill_numbers(dtype, rest);
}

}  // namespace detail

inline Dtype Dtype::read(std::string_view name) {
    Dtype dtype;
    dtype.name = std::string(name);
    bool good = name.size() >= 3 && name.size() < 32;
    if (good) {
        dtype.order = name[0];
        dtype.kind = name[1];
        good = std::string_view("<>|").find(name[0]) != std::string_view::npos &&
               detail::fill(dtype, name.substr(2));
    }
    if (!good)
        throw ProtocolError("a value has an unknown dtype: \"" +
                            std::string(name.substr(0, 40)) + "\"");
    return dtype;
}

inline std::string Dtype::spelt() const {
    static constexpr const char* spellings[][2] = {
        {dtype_of<bool>::name, dtype_of<bool>::spelt},
        {dtype_of<std::int8_t>::name, dtype_of<std::int8_t>::spelt},
        {dtype_of<std::int16_t>::name, dtype_of<std::int16_t>::spelt},
        {dtype_of<std::int32_t>::name, dtype_of<std::int32_t>::spelt},
        {dtype_of<std::int64_t>::name, dtype_of<std::int64_t>::spelt},
        {dtype_of<std::uint8_t>::name, dtype_of<std::uint8_t>::spelt},
        {dtype_of<std::uint16_t>::name, dtype_of<std::uint16_t>::spelt},
        {dtype_of<std::uint32_t>::name, dtype_of<std::uint32_t>::spelt},
        {dtype_of<std::uint64_t>::name, dtype_of<std::uint64_t>::spelt},
        {dtype_of<half>::name, "gym_http::half"},
        {dtype_of<float>::name, dtype_of<float>::spelt},
        {dtype_of<double>::name, dtype_of<double>::spelt},
        {dtype_of<std::complex<float>>::name, dtype_of<std::complex<float>>::spelt},
        {dtype_of<std::complex<double>>::name, dtype_of<std::complex<double>>::spelt},
    };
    for (const auto& each : spellings) {
        if (name == each[0]) return each[1];
    }
    return {};
}

}  // namespace gym_http

#endif
