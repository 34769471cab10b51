/// @file
/// Many elements of a space as one value.
#ifndef GYM_HTTP_CLIENT_STACKING_HPP
#define GYM_HTTP_CLIENT_STACKING_HPP

#include "gym_http_client/describing.hpp"

namespace gym_http::detail {

/// Makes one value of many elements, as Gymnasium batches them.
inline Value stacked(const Space& space, const Value::Items& elements);

inline Value stacked_arrays(const Dtype& dtype, const Shape& shape,
                            const Value::Items& elements) {
    Shape sizes{elements.size()};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    Bytes content;
    for (const Value& element : elements)
        content.insert(content.end(), element.raw().begin(), element.raw().end());
    return Value::array(dtype.name, std::move(sizes), std::move(content));
}

inline Value stacked(const Space& space, const Value::Items& elements) {
    const auto& kind = space.variant();
    if (const auto* box = std::get_if<spaces::Box>(&kind))
        return stacked_arrays(box->dtype, box->shape, elements);
    if (const auto* discrete = std::get_if<spaces::Discrete>(&kind))
        return stacked_arrays(discrete->dtype, {}, elements);
    if (const auto* binary = std::get_if<spaces::MultiBinary>(&kind))
        return stacked_arrays(Dtype::read("|i1"), binary->shape, elements);
    if (const auto* multi = std::get_if<spaces::MultiDiscrete>(&kind))
        return stacked_arrays(multi->dtype, multi->shape, elements);
    const auto column = [&](std::size_t at) {
        Value::Items items;
        for (const Value& element : elements)
            items.push_back(element.kind() == Kind::dict ? element.members()[at].second
                                                         : element[at]);
        return items;
    };
    if (const auto* dict = std::get_if<spaces::Dict>(&kind)) {
        Value::Members members;
        for (std::size_t at = 0; at < dict->spaces.size(); ++at)
            members.emplace_back(dict->spaces[at].first,
                                 stacked(dict->spaces[at].second, column(at)));
        return Value::dict(std::move(members));
    }
    if (const auto* tuple = std::get_if<spaces::Tuple>(&kind)) {
        Value::Items items;
        for (std::size_t at = 0; at < tuple->spaces.size(); ++at)
            items.push_back(stacked(tuple->spaces[at], column(at)));
        return Value::tuple(std::move(items));
    }
    return Value::tuple(elements);
}

}  // namespace gym_http::detail

#endif
