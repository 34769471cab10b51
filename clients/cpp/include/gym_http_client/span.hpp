/// @file
/// A view of elements that stand one after the other, as C++20's `std::span`.
#ifndef GYM_HTTP_CLIENT_SPAN_HPP
#define GYM_HTTP_CLIENT_SPAN_HPP

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace gym_http {

/// Elements with another owner.
template <class T>
class span {
public:
    using element_type = T;                      ///< With `const`, if it has that.
    using value_type = std::remove_cv_t<T>;      ///< Without.
    using size_type = std::size_t;               ///< Counts elements.
    using iterator = T*;                         ///< Goes over the elements.
    using const_iterator = T*;                   ///< The same: a span is a view.

    /// A view of nothing.
    constexpr span() noexcept = default;
    /// A view of `size` elements from `data` on.
    constexpr span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}

    /// The first element's address.
    constexpr T* data() const noexcept { return data_; }
    /// The number of elements.
    constexpr std::size_t size() const noexcept { return size_; }
    /// Whether it is empty.
    constexpr bool empty() const noexcept { return size_ == 0; }
    /// Where the elements begin.
    constexpr T* begin() const noexcept { return data_; }
    /// Where they end.
    constexpr T* end() const noexcept { return data_ + size_; }
    /// An element, unchecked.
    constexpr T& operator[](std::size_t index) const noexcept { return data_[index]; }
    /// The first element, unchecked.
    constexpr T& front() const noexcept { return data_[0]; }
    /// The last element, unchecked.
    constexpr T& back() const noexcept { return data_[size_ - 1]; }

    /// An element, checked.
    T& at(std::size_t index) const {
        if (index >= size_)
            throw std::out_of_range("index " + std::to_string(index) + " of a span of " +
                                    std::to_string(size_));
        return data_[index];
    }

    /// A copy that owns its elements.
    std::vector<value_type> to_vector() const { return {begin(), end()}; }

private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace gym_http

#endif
