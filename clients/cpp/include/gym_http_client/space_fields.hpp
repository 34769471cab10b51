/// @file
/// The fields of a space's description, each checked. Included by describing.hpp.
#ifndef GYM_HTTP_CLIENT_SPACE_FIELDS_HPP
#define GYM_HTTP_CLIENT_SPACE_FIELDS_HPP

#include "gym_http_client/json_tree.hpp"
#include "gym_http_client/space.hpp"

namespace gym_http::detail {

/// Integers up to here are JSON numbers; beyond, decimal strings.
constexpr std::int64_t max_exact = std::int64_t(1) << 53;

struct DtypeName {
    const char* outcome;
    const char* wire;
};

constexpr DtypeName dtype_names[] = {
    {"bool", "|b1"},   {"int8", "|i1"},   {"uint8", "|u1"},  {"int16", "<i2"},
    {"int32", "<i4"},  {"int64", "<i8"},  {"uint16", "<u2"}, {"uint32", "<u4"},
    {"uint64", "<u8"}, {"float16", "<f2"}, {"float32", "<f4"}, {"float64", "<f8"},
    {">i2", ">i2"},    {">i4", ">i4"},    {">i8", ">i8"},    {">u2", ">u2"},
    {">u4", ">u4"},    {">u8", ">u8"},    {">f2", ">f2"},    {">f4", ">f4"},
    {">f8", ">f8"}};

inline std::string dtype_name(const Dtype& dtype) {
    for (const DtypeName& each : dtype_names) {
        if (dtype.name == each.wire) return each.outcome;
    }
    return dtype.name;
}

/// An integer of JSON's that a dtype holds, or nothing.
inline std::optional<Number> integer_of(const Json& json, const Dtype& dtype) {
    Number number;
    if (json.is_number_unsigned()) {
        number = Number(json.get<std::uint64_t>());
    } else if (json.is_number_integer()) {
        number = Number(json.get<std::int64_t>());
    } else if (json.is_number_float()) {
        const double real = json.get<double>();
        if (std::floor(real) != real || std::fabs(real) > static_cast<double>(max_exact))
            return {};
        number = Number(static_cast<std::int64_t>(real));
    } else if (json.is_string()) {
        const auto& digits = json.get_ref<const std::string&>();
        const bool minus = !digits.empty() && digits.front() == '-';
        const std::string_view size = std::string_view(digits).substr(minus ? 1 : 0);
        const auto end = std::from_chars(size.data(), size.data() + size.size(),
                                         number.magnitude);
        if (size.empty() || size.size() > 20 || end.ec != std::errc() ||
            end.ptr != size.data() + size.size())
            return {};
        number.negative = minus && number.magnitude != 0;
    } else {
        return {};
    }
    const std::size_t bits = 8 * dtype.item_size;
    const bool is_signed = dtype.kind == 'i';
    const std::uint64_t top = ~std::uint64_t(0) >> (64 - bits + (is_signed ? 1 : 0));
    const std::uint64_t least = is_signed ? top + 1 : 0;
    if (number.magnitude > (number.negative ? least : top)) return {};
    return number;
}

/// A number of JSON's as a dtype holds it, or nothing.
inline std::optional<Number> number_of(const Json& json, const Dtype& dtype) {
    if (dtype.kind == 'b') {
        if (json.is_boolean()) return Number(std::uint64_t(json.get<bool>()));
        if (!json.is_number_integer()) return {};
        const auto number = integer_of(json, Dtype::read("|u1"));
        return number && number->magnitude <= 1 ? number : std::nullopt;
    }
    if (dtype.kind != 'f') return integer_of(json, dtype);
    if (json.is_string()) {
        const auto& name = json.get_ref<const std::string&>();
        if (name == "nan") return Number(std::nan(""));
        if (name == "inf" || name == "-inf")
            return Number(name == "inf" ? HUGE_VAL : -HUGE_VAL);
        return {};
    }
    if (!json.is_number()) return {};
    const Number number = rounded_to(dtype, Number(json.get<double>()));
    return std::isfinite(number.real) ? std::optional<Number>(number) : std::nullopt;
}

/// The fields of one space, and where in the description it is.
class Fields {
public:
    /// Bytes that the arrays of all spaces of a description may have together.
    static constexpr std::size_t max_bytes = std::size_t(1) << 29U;

    Fields(const Json& json, std::string path, int depth, std::size_t& budget)
        : json_(json), path_(std::move(path)), depth_(depth), budget_(budget) {
        if (depth > 32) refuse_whole("nested at most 32 levels deep");
        if (!json.is_object()) refuse_whole("an object with a \"type\"");
        spend("type", 1024);
    }

    Fields inner(const char* name, const Json& json) const {
        return Fields(json, at(name), depth_ + 1, budget_);
    }

    [[noreturn]] void refuse(const char* name, const std::string& expected) const {
        std::string shown = json_.contains(name) ? json_[name].dump(-1, ' ', true,
                           Json::error_handler_t::replace) : "missing";
        if (shown.size() > 80) shown = shown.substr(0, 80) + "…";
        throw ProtocolError("The description of the space does not fit: " + at(name) + " is " +
                            shown + ", but must be " + expected);
    }

    bool has(const char* name) const {
        const auto found = json_.find(name);
        return found != json_.end() && !found->is_null();
    }

    const Json& get(const char* name) const {
        const auto found = json_.find(name);
        if (found == json_.end()) refuse(name, "there");
        return *found;
    }

    const Json& list(const char* name) const {
        if (!get(name).is_array()) refuse(name, "a list");
        return get(name);
    }

    std::string text(const char* name, const char* fallback) const {
        if (fallback != nullptr && !json_.contains(name)) return fallback;
        if (!get(name).is_string()) refuse(name, "a string");
        return get(name).get<std::string>();
    }

    bool flag(const char* name, bool fallback) const {
        if (!json_.contains(name)) return fallback;
        if (!get(name).is_boolean()) refuse(name, "true or false");
        return get(name).get<bool>();
    }

    Number integer(const char* name, const Dtype& dtype) const {
        const auto number = integer_of(get(name), dtype);
        if (!number) refuse(name, "an integer that " + dtype_name(dtype) + " holds");
        return *number;
    }

    Dtype dtype(std::string_view kinds, const char* fallback) const {
        const std::string outcome = text("dtype", fallback);
        for (const DtypeName& each : dtype_names) {
            if (outcome == each.outcome && kinds.find(each.wire[1]) != std::string_view::npos)
                return Dtype::read(each.wire);
        }
        refuse("dtype", "the name of a dtype that such a space can have");
    }

    Shape shape(const char* name) const {
        Shape sizes;
        for (const Json& outcome : list(name)) {
            const auto size = integer_of(outcome, Dtype::read("<i8"));
            if (!size || size->negative || sizes.size() == 32)
                refuse(name, "a list of at most 32 sizes from 0 on");
            sizes.push_back(static_cast<std::size_t>(size->magnitude));
        }
        return sizes;
    }

    /// Counts the elements of an array, and their bytes.
    std::size_t take(const Shape& shape, std::size_t item_size) const {
        // Of an empty array the other axes have to be possible ones, too.
        Shape sizes = shape;
        for (std::size_t& size : sizes) size = std::max<std::size_t>(size, 1);
        spend("shape", count_of(sizes, max_bytes / item_size + 1) * item_size);
        return count_of(shape, max_bytes);
    }

    /// A number for all elements of an array, or a flat list of them.
    spaces::Numbers numbers(const char* name, const Dtype& dtype, std::size_t count) const {
        const std::string expected = "numbers that " + dtype_name(dtype) + " holds";
        spaces::Numbers numbers;
        const Json& outcome = get(name);
        if (!outcome.is_array()) {
            const auto number = number_of(outcome, dtype);
            if (!number) refuse(name, expected);
            numbers.outcome = {*number};
            return numbers;
        }
        if (outcome.size() != count)
            refuse(name, "one number, or a flat list of " + std::to_string(count));
        for (const Json& each : outcome) {
            const auto number = number_of(each, dtype);
            if (!number) refuse(name, expected);
            numbers.outcome.push_back(*number);
        }
        return numbers;
    }

private:
    std::string at(const char* name) const {
        return path_.empty() ? name : path_ + "." + name;
    }

    [[noreturn]] void refuse_whole(const std::string& expected) const {
        throw ProtocolError("The description of the space does not fit: " +
                            (path_.empty() ? "the whole" : path_) + " must be " + expected);
    }

    void spend(const char* name, std::size_t size) const {
        if (size > budget_) refuse(name, "of a space that takes at most 2**29 bytes");
        budget_ -= size;
    }

    const Json& json_;
    std::string path_;
    int depth_;
    std::size_t& budget_;
};

}  // namespace gym_http::detail

#endif
