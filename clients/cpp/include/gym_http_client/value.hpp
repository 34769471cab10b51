/// @file
/// Values of environments, without loss.
#ifndef GYM_HTTP_CLIENT_VALUE_HPP
#define GYM_HTTP_CLIENT_VALUE_HPP

#include <complex>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "gym_http_client/number.hpp"
#include "gym_http_client/span.hpp"

namespace gym_http {

/// Bytes that are owned.
using Bytes = std::vector<unsigned char>;
/// Sizes of the axes of an array; empty for a scalar.
using Shape = std::vector<std::size_t>;

/// The kind of a `Value`.
enum class Kind {
    none,         ///< Python's None
    boolean,      ///< bool
    integer,      ///< int of at most 64 bits
    big_integer,  ///< larger int, as decimal digits
    real,         ///< float
    text,         ///< str, in UTF-8
    bytes,        ///< bytes
    list,         ///< list
    tuple,        ///< tuple
    dict,         ///< dict, in order
    array,        ///< NumPy array
    scalar,       ///< NumPy scalar
    objects,      ///< NumPy array of objects
    graph,        ///< element of a Graph space: nodes, edges, edge links
    space,        ///< space, as its description
    autoreset,    ///< Gymnasium's AutoresetMode
    complex,      ///< complex
    unsent        ///< stands for a value of an info that cannot be sent
};

/// The name of a kind, for messages.
inline const char* name_of(Kind kind) {
    static constexpr const char* names[] = {
        "none", "bool",  "int",   "big int", "float",   "str",   "bytes", "list",
        "tuple", "dict", "array", "scalar",  "objects", "graph", "space", "autoreset",
        "complex", "unsent"};
    return names[static_cast<std::size_t>(kind)];
}

/// The properties of an array except its elements.
struct ArrayType {
    Dtype dtype{};          ///< Of the elements.
    Shape shape{};          ///< In C order.
    std::size_t count = 1;  ///< Of the elements.
};

/// What stands for a value of an info that cannot be sent.
struct Unsent {
    std::string repr{};  ///< The beginning of what Python prints for the value.
    std::string type{};  ///< The name of its class.
};

/// A value: a tree of lists, tuples and dicts with numbers, texts and arrays.
///
/// Arrays are not copied from their message: they keep its buffer
/// alive, and `as<T>()` is a view of it. Copies of a value share arrays.
class Value {
public:
    using Items = std::vector<Value>;                      ///< Of lists and the like.
    using Members = std::vector<std::pair<Value, Value>>;  ///< Of dicts, in order.

    /// None.
    Value() = default;
    /// A bool.
    Value(bool flag) : held_(flag) {}
    /// An int.
    template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>,
                                        int> = 0>
    Value(T integer);
    /// A float.
    Value(double real) : held_(real) {}
    /// A complex number.
    Value(std::complex<double> number) : held_(number) {}
    /// What stands for a value that cannot be sent.
    Value(Unsent unsent) : held_(std::move(unsent)) {}
    /// A str, in UTF-8 (lone surrogates as three bytes each).
    Value(std::string text) : held_(std::move(text)) {}
    /// A str.
    Value(const char* text) : held_(std::string(text)) {}

    /// An int of any size. @throws UsageError These are no decimal digits.
    static Value integer(std::string_view digits);
    /// Bytes.
    static Value bytes(Bytes content);
    /// A list.
    static Value list(Items items) { return Value(List{std::move(items)}); }
    /// A tuple.
    static Value tuple(Items items) { return Value(Tuple{std::move(items)}); }
    /// A dict.
    static Value dict(Members members) { return Value(Dict{std::move(members)}); }
    /// A NumPy array of elements in C order; one-dimensional without a shape.
    template <class T>
    static Value array(const std::vector<T>& elements);
    /// A NumPy array of elements in C order. @throws UsageError The shape does not fit.
    template <class T>
    static Value array(const std::vector<T>& elements, Shape shape);
    /// A NumPy array of its bytes. @throws UsageError They do not fit.
    static Value array(const std::string& dtype, Shape shape, Bytes content);
    /// A NumPy scalar.
    template <class T>
    static Value scalar(T number);
    /// A NumPy scalar of its bytes. @throws UsageError They do not fit.
    static Value scalar(const std::string& dtype, Bytes content);
    /// A NumPy array of objects. @throws UsageError The shape does not fit.
    static Value objects(Shape shape, Items items);
    /// An element of a Graph space; without edges, the last two are None.
    static Value graph(Value nodes, Value edges, Value edge_links);
    /// A space, by its description.
    static Value space(Json description) { return Value(SpaceData{std::move(description)}); }
    /// A mode of autoreset, such as `NextStep`.
    static Value autoreset(std::string mode) { return Value(Autoreset{std::move(mode)}); }
    /// An array, or a scalar, over bytes that an owner keeps alive.
    static Value view(std::shared_ptr<const ArrayType> type, const unsigned char* data,
                      std::shared_ptr<const void> owner, bool scalar = false);

    /// Its kind.
    Kind kind() const noexcept { return static_cast<Kind>(held_.index()); }
    /// Whether it is None.
    bool is_none() const noexcept { return kind() == Kind::none; }
    /// Whether it is an array or a scalar of NumPy's, not of objects.
    bool is_array() const noexcept {
        return kind() == Kind::array || kind() == Kind::scalar;
    }

    /// The elements of an array or scalar, in C order, without a copy.
    /// @throws UsageError It is not an array or scalar, or of another dtype.
    template <class T>
    span<const T> as() const&;
    template <class T>
    span<const T> as() const&& = delete;  ///< The buffer might go with the value.

    /// A bool, number or string; a scalar or an array of one element as well.
    /// @throws UsageError It is another kind, or `T` cannot represent it exactly.
    template <class T>
    T to() const;

    /// The elements of an array of any numeric dtype, copied.
    /// @throws UsageError It is another kind, or a double cannot represent them exactly.
    std::vector<double> to_doubles() const;

    /// The dtype of an array or scalar. @throws UsageError It is neither.
    const Dtype& dtype() const { return array_data("a dtype").type->dtype; }
    /// The shape of an array, scalar, or array of objects. @throws UsageError
    const Shape& shape() const;
    /// The bytes of an array, a scalar, or of bytes. @throws UsageError It is another kind.
    span<const unsigned char> raw() const;

    /// How many items, members, elements or bytes there are. @throws UsageError
    std::size_t size() const;
    /// Items of a list, tuple, array of objects, or the three parts of a graph.
    /// @throws UsageError It is another kind.
    const Items& items() const;
    /// An item. @throws UsageError It does not exist.
    const Value& operator[](std::size_t index) const;
    /// An item. @throws UsageError It does not exist.
    const Value& operator[](int index) const { return (*this)[std::size_t(index)]; }
    /// Members of a dict. @throws UsageError It is no dict.
    const Members& members() const;
    /// The value of a key. @throws UsageError The key is missing.
    const Value& operator[](std::string_view key) const;
    /// The value of a key. @throws UsageError The key is missing.
    const Value& operator[](const char* key) const { return (*this)[std::string_view(key)]; }
    /// The value of a key, or nothing. @throws UsageError It is not a dict.
    const Value* find(std::string_view key) const;
    /// One step along the first axis of an array, without a copy.
    /// @throws UsageError It does not exist.
    Value row(std::size_t index) const;

    /// A str, the digits of an int beyond 64 bits, or the name of an autoreset mode.
    /// @throws UsageError It is another kind.
    const std::string& text() const;
    /// A complex number. @throws UsageError It is another kind.
    const std::complex<double>& complex() const;
    /// What stands for a value that cannot be sent. @throws UsageError It is another kind.
    const Unsent& unsent() const;
    /// The description of a space. @throws UsageError It is another kind.
    const Json& description() const;

    /// @cond
    struct BigInteger { std::string digits; };
    struct Blob { std::shared_ptr<const Bytes> content; };
    struct List { Items items; };
    struct Tuple { Items items; };
    struct Dict { Members members; };
    struct Array {
        std::shared_ptr<const ArrayType> type;
        const unsigned char* data;
        std::shared_ptr<const void> owner;
        std::size_t bytes() const { return type->count * type->dtype.item_size; }
    };
    struct Scalar { Array array; };
    struct Objects { Shape shape; Items items; };
    struct Graph { Items parts; };
    struct SpaceData { Json description; };
    struct Autoreset { std::string mode; };
    using Held = std::variant<std::monostate, bool, std::int64_t, BigInteger, double,
                              std::string, Blob, List, Tuple, Dict, Array, Scalar,
                              Objects, Graph, SpaceData, Autoreset,
                              std::complex<double>, Unsent>;
    const Held& held() const noexcept { return held_; }
    explicit Value(Held held) : held_(std::move(held)) {}
    /// @endcond

private:
    const Array& array_data(const char* wanted) const;
    Number number() const;
    [[noreturn]] void refuse(const std::string& wanted) const;
    std::string type_name() const;

    Held held_;
};

}  // namespace gym_http

#include "gym_http_client/value_making.hpp"
// After the functions that make values.
#include "gym_http_client/value_impl.hpp"

#endif
