/// @file
/// Single numbers of any dtype, compared without rounding.
#ifndef GYM_HTTP_CLIENT_NUMBER_HPP
#define GYM_HTTP_CLIENT_NUMBER_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "gym_http_client/dtype.hpp"

namespace gym_http {

/// An integer of 64 bits, signed or not, or a double.
struct Number {
    bool is_real = false;         ///< Whether it is `real`, else sign and magnitude.
    bool negative = false;        ///< Whether the integer is below zero.
    std::uint64_t magnitude = 0;  ///< The integer without its sign.
    double real = 0;              ///< The double.

    /// The number zero.
    Number() = default;
    /// A signed integer.
    explicit Number(std::int64_t integer)
        : negative(integer < 0),
          magnitude(integer < 0 ? 0 - static_cast<std::uint64_t>(integer)
                                : static_cast<std::uint64_t>(integer)) {}
    /// An unsigned integer.
    explicit Number(std::uint64_t integer) : magnitude(integer) {}
    /// A float.
    explicit Number(double value) : is_real(true), real(value) {}

    /// The nearest double.
    double rounded() const {
        if (is_real) return real;
        const auto size = static_cast<double>(magnitude);
        return negative ? -size : size;
    }

    /// Whether an int64 holds it.
    bool fits_int64() const {
        constexpr std::uint64_t limit = 1ULL << 63U;
        return !is_real && (negative ? magnitude <= limit : magnitude < limit);
    }

    /// The integer, if `fits_int64`.
    std::int64_t int64() const {
        return static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
    }
};

namespace detail {

inline int sign_of(bool less, bool greater) { return less ? -1 : greater ? 1 : 0; }

inline int compare_integers(const Number& a, const Number& b) {
    if (a.negative != b.negative) return a.negative ? -1 : 1;
    const int order = sign_of(a.magnitude < b.magnitude, a.magnitude > b.magnitude);
    return a.negative ? -order : order;
}

inline int compare_to_real(const Number& integer, double real) {
    if (real >= 18446744073709551616.0) return -1;
    if (real < -9223372036854775808.0) return 1;
    const double whole = std::floor(real);
    const Number floor = whole < 0 ? Number(static_cast<std::int64_t>(whole))
                                   : Number(static_cast<std::uint64_t>(whole));
    const int order = compare_integers(integer, floor);
    return order == 0 && real > whole ? -1 : order;
}

}  // namespace detail

/// Whether `a <= b`, exactly; never of a NaN.
inline bool at_most(const Number& a, const Number& b) {
    if (a.is_real && b.is_real) return a.real <= b.real;
    if (a.is_real)
        return !std::isnan(a.real) && detail::compare_to_real(b, a.real) >= 0;
    if (b.is_real)
        return !std::isnan(b.real) && detail::compare_to_real(a, b.real) <= 0;
    return detail::compare_integers(a, b) <= 0;
}

/// Whether a dtype's elements are numbers that `load` and `store` know.
inline bool is_number(const Dtype& dtype) {
    return dtype.kind == 'b' || dtype.kind == 'i' || dtype.kind == 'u' ||
           (dtype.kind == 'f' && dtype.item_size <= 8);
}

namespace detail {

template <class T>
T load_as(const unsigned char* bytes, bool swapped) {
    unsigned char copy[sizeof(T)];
    std::memcpy(copy, bytes, sizeof(T));
    if (swapped) std::reverse(copy, copy + sizeof(T));
    T number;
    std::memcpy(&number, copy, sizeof(T));
    return number;
}

template <class T>
void store_as(T number, unsigned char* bytes, bool swapped) {
    std::memcpy(bytes, &number, sizeof(T));
    if (swapped) std::reverse(bytes, bytes + sizeof(T));
}

inline std::int64_t load_signed(std::size_t size, const unsigned char* at, bool swapped) {
    switch (size) {
        case 1: return load_as<std::int8_t>(at, swapped);
        case 2: return load_as<std::int16_t>(at, swapped);
        case 4: return load_as<std::int32_t>(at, swapped);
        default: return load_as<std::int64_t>(at, swapped);
    }
}

inline std::uint64_t load_unsigned(std::size_t size, const unsigned char* at,
                                   bool swapped) {
    switch (size) {
        case 1: return load_as<std::uint8_t>(at, swapped);
        case 2: return load_as<std::uint16_t>(at, swapped);
        case 4: return load_as<std::uint32_t>(at, swapped);
        default: return load_as<std::uint64_t>(at, swapped);
    }
}

inline double load_real(std::size_t size, const unsigned char* at, bool swapped) {
    switch (size) {
        case 2: return static_cast<double>(
            static_cast<float>(load_as<half>(at, swapped)));
        case 4: return static_cast<double>(load_as<float>(at, swapped));
        default: return load_as<double>(at, swapped);
    }
}

}  // namespace detail

/// Reads an element of a dtype of numbers.
inline Number load(const Dtype& dtype, const unsigned char* bytes) {
    const bool swapped = dtype.order == '>';
    if (dtype.kind == 'f')
        return Number(detail::load_real(dtype.item_size, bytes, swapped));
    if (dtype.kind == 'i')
        return Number(detail::load_signed(dtype.item_size, bytes, swapped));
    return Number(detail::load_unsigned(dtype.item_size, bytes, swapped));
}

/// Writes an element of a dtype of numbers, rounded or truncated to that dtype.
inline void store(const Dtype& dtype, const Number& number, unsigned char* bytes) {
    const bool swapped = dtype.order == '>';
    if (dtype.kind == 'f') {
        const double real = number.rounded();
        switch (dtype.item_size) {
            case 2: return detail::store_as(half(real), bytes, swapped);
            case 4: return detail::store_as(static_cast<float>(real), bytes, swapped);
            default: return detail::store_as(real, bytes, swapped);
        }
    }
    const std::uint64_t word =
        number.negative ? 0 - number.magnitude : number.magnitude;
    switch (dtype.item_size) {
        case 1: return detail::store_as(static_cast<std::uint8_t>(word), bytes, swapped);
        case 2: return detail::store_as(static_cast<std::uint16_t>(word), bytes, swapped);
        case 4: return detail::store_as(static_cast<std::uint32_t>(word), bytes, swapped);
        default: return detail::store_as(word, bytes, swapped);
    }
}

/// A number as elements of a dtype of floats have it; integers stay as they are.
inline Number rounded_to(const Dtype& dtype, const Number& number) {
    if (dtype.kind != 'f' || !number.is_real) return number;
    if (dtype.item_size == 2)
        return Number(static_cast<double>(static_cast<float>(half(number.real))));
    if (dtype.item_size == 4 && std::isfinite(number.real)) {
        // Beyond the range of a float32 the cast is undefined.
        const double limit = 0x1.ffffffp+127;
        if (std::fabs(number.real) >= limit)
            return Number(std::copysign(std::numeric_limits<double>::infinity(),
                                        number.real));
        return Number(static_cast<double>(static_cast<float>(number.real)));
    }
    return number;
}

}  // namespace gym_http

#endif
