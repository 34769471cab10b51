/// @file
/// Spaces as data: read from JSON, and written.
#ifndef GYM_HTTP_CLIENT_DESCRIBING_HPP
#define GYM_HTTP_CLIENT_DESCRIBING_HPP

#include "gym_http_client/space_fields.hpp"

namespace gym_http {

namespace detail {

inline Space read_space(const Fields& fields);

inline std::vector<Space> read_spaces(const Fields& fields) {
    std::vector<Space> members;
    for (const Json& member : fields.list("spaces"))
        members.push_back(read_space(fields.inner("spaces", member)));
    return members;
}

inline spaces::Inner read_inner(const Fields& fields, const char* name) {
    return std::make_shared<Space>(read_space(fields.inner(name, fields.get(name))));
}

inline Space read_box(const Fields& fields) {
    spaces::Box box;
    box.dtype = fields.dtype("biuf", "float32");
    box.shape = fields.shape("shape");
    const std::size_t count = fields.take(box.shape, 2 * box.dtype.item_size + 2);
    box.low = fields.numbers("low", box.dtype, count);
    box.high = fields.numbers("high", box.dtype, count);
    const std::size_t outcome = std::max(box.low.outcome.size(), box.high.outcome.size());
    for (std::size_t at = 0; at < outcome && count != 0; ++at) {
        const Number &low = box.low[at], &high = box.high[at];
        if (at_most(high, low) && !at_most(low, high)) fields.refuse("low", "nowhere above high");
    }
    const Dtype flag = Dtype::read("|b1");
    const auto bounded = [&](const char* name, const spaces::Numbers& limits, bool above) {
        if (fields.has(name)) return fields.numbers(name, flag, count);
        spaces::Numbers flags;
        for (const Number& limit : limits.outcome) {
            const double real = limit.rounded();
            flags.outcome.emplace_back(
                std::uint64_t(above ? real < HUGE_VAL : real > -HUGE_VAL));
        }
        return flags;
    };
    box.bounded_below = bounded("bounded_below", box.low, false);
    box.bounded_above = bounded("bounded_above", box.high, true);
    return box;
}

inline Space read_discrete(const Fields& fields) {
    spaces::Discrete space;
    space.dtype = fields.dtype("iu", "int64");
    const Number n = fields.integer("n", space.dtype);
    if (n.negative || n.magnitude == 0) fields.refuse("n", "an integer from 1 on");
    space.n = n.magnitude;
    if (fields.has("start")) space.start = fields.integer("start", space.dtype);
    return space;
}

inline Space read_multi_binary(const Fields& fields) {
    spaces::MultiBinary space;
    space.is_flat = !fields.get("n").is_array();
    if (space.is_flat) {
        const Number n = fields.integer("n", Dtype::read("<i8"));
        if (n.negative || n.magnitude == 0) fields.refuse("n", "an integer from 1 on");
        space.shape = {static_cast<std::size_t>(n.magnitude)};
    } else {
        space.shape = fields.shape("n");
        if (std::find(space.shape.begin(), space.shape.end(), 0U) != space.shape.end())
            fields.refuse("n", "a list of sizes from 1 on");
    }
    fields.take(space.shape, 1);
    return space;
}

inline Space read_multi_discrete(const Fields& fields) {
    spaces::MultiDiscrete space;
    space.dtype = fields.dtype("iu", "int64");
    if (fields.has("shape"))
        space.shape = fields.shape("shape");
    else
        space.shape = {fields.list("nvec").size()};
    const std::size_t count = fields.take(space.shape, 2 * space.dtype.item_size);
    space.nvec = fields.numbers("nvec", space.dtype, count);
    for (const Number& n : space.nvec.outcome) {
        if (n.negative || n.magnitude == 0) fields.refuse("nvec", "integers from 1 on");
    }
    space.start.outcome = {Number()};
    if (fields.has("start")) space.start = fields.numbers("start", space.dtype, count);
    return space;
}

inline Space read_text_space(const Fields& fields) {
    spaces::Text space;
    const Dtype length = Dtype::read("<i8");
    const Number longest = fields.integer("max_length", length);
    if (longest.negative) fields.refuse("max_length", "an integer from 0 on");
    space.max_length = longest.magnitude;
    if (fields.has("min_length")) {
        const Number shortest = fields.integer("min_length", length);
        if (shortest.negative) fields.refuse("min_length", "an integer from 0 on");
        space.min_length = shortest.magnitude;
    }
    if (space.min_length > space.max_length) fields.refuse("min_length", "at most max_length");
    space.characters = characters_of(fields.text(
        "charset", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"));
    return space;
}

inline Space read_dict_space(const Fields& fields) {
    spaces::Dict space;
    std::unordered_set<std::string> keys;
    for (const Json& pair : fields.list("spaces")) {
        if (!pair.is_array() || pair.size() != 2) fields.refuse("spaces", "pairs: [key, space]");
        const Json& key = pair[0];
        const bool counts = key.is_number_integer() && key.get<std::int64_t>() <= max_exact &&
                            key.get<std::int64_t>() >= -max_exact;
        if (!key.is_string() && !counts)
            fields.refuse("spaces", "pairs, with strings or integers up to 2**53 for keys");
        if (!keys.insert(key.dump()).second) fields.refuse("spaces", "with no key twice");
        Value name = key.is_string() ? Value(key.get<std::string>())
                                     : Value(key.get<std::int64_t>());
        space.spaces.emplace_back(std::move(name),
                                  read_space(fields.inner("spaces", pair[1])));
    }
    space.sort_keys = fields.flag("sort_keys", true);
    return space;
}

inline Space read_opaque(const Fields& fields) {
    spaces::Opaque space;
    space.class_name = fields.text("class", nullptr);
    if (fields.has("repr")) space.repr = fields.text("repr", nullptr);
    if (fields.has("base")) space.base = read_inner(fields, "base");
    if (fields.has("arguments")) space.arguments = fields.get("arguments");
    return space;
}

inline Space read_space(const Fields& fields) {
    const std::string type = fields.text("type", nullptr);
    if (type == "Box") return read_box(fields);
    if (type == "Discrete") return read_discrete(fields);
    if (type == "MultiBinary") return read_multi_binary(fields);
    if (type == "MultiDiscrete") return read_multi_discrete(fields);
    if (type == "Text") return read_text_space(fields);
    if (type == "Dict") return read_dict_space(fields);
    if (type == "Tuple") return spaces::Tuple{read_spaces(fields)};
    if (type == "OneOf") return spaces::OneOf{read_spaces(fields)};
    if (type == "Sequence")
        return spaces::Sequence{read_inner(fields, "space"), fields.flag("stack", false)};
    if (type == "Graph")
        return spaces::Graph{read_inner(fields, "node_space"),
                             fields.has("edge_space") ? read_inner(fields, "edge_space")
                                                      : nullptr};
    if (type == "Opaque") return read_opaque(fields);
    fields.refuse("type", "the name of a space of Gymnasium's, or Opaque");
}

inline Json number_data(const Dtype& dtype, const Number& number) {
    if (dtype.kind == 'b') return number.magnitude != 0;
    if (number.is_real) {
        if (std::isnan(number.real)) return "nan";
        if (std::isinf(number.real)) return number.real > 0 ? "inf" : "-inf";
        return shortest(dtype, number.real);
    }
    if (number.magnitude > static_cast<std::uint64_t>(max_exact))
        return (number.negative ? "-" : "") + std::to_string(number.magnitude);
    return number.int64();
}

inline Json numbers_data(const Dtype& dtype, const spaces::Numbers& numbers) {
    if (numbers.outcome.size() == 1) return number_data(dtype, numbers.outcome.front());
    Json list = Json::array();
    for (const Number& number : numbers.outcome) list.push_back(number_data(dtype, number));
    return list;
}

}  // namespace detail

/// Parses the description of a space.
/// @throws ProtocolError It is malformed, or the space too large; the message has the place.
inline Space read_space(const Json& description) {
    std::size_t budget = detail::Fields::max_bytes;
    return detail::read_space(detail::Fields(description, "", 1, budget));
}

/// Writes the description of a space.
inline Json describe(const Space& space) {
    using namespace spaces;
    using detail::number_data, detail::numbers_data, detail::dtype_name;
    const Dtype flag = Dtype::read("|b1");
    const Dtype int64 = Dtype::read("<i8");
    const auto all = [](const std::vector<Space>& members) {
        Json list = Json::array();
        for (const Space& member : members) list.push_back(describe(member));
        return list;
    };
    if (const auto* box = std::get_if<Box>(&space.variant()))
        return Json{{"type", "Box"},
                    {"dtype", dtype_name(box->dtype)},
                    {"shape", box->shape},
                    {"low", numbers_data(box->dtype, box->low)},
                    {"high", numbers_data(box->dtype, box->high)},
                    {"bounded_below", numbers_data(flag, box->bounded_below)},
                    {"bounded_above", numbers_data(flag, box->bounded_above)}};
    if (const auto* discrete = std::get_if<Discrete>(&space.variant()))
        return Json{{"type", "Discrete"},
                    {"n", number_data(int64, Number(discrete->n))},
                    {"start", number_data(int64, discrete->start)},
                    {"dtype", dtype_name(discrete->dtype)}};
    if (const auto* binary = std::get_if<MultiBinary>(&space.variant()))
        return Json{{"type", "MultiBinary"},
                    {"n", binary->is_flat ? Json(binary->shape[0]) : Json(binary->shape)}};
    if (const auto* multi = std::get_if<MultiDiscrete>(&space.variant()))
        return Json{{"type", "MultiDiscrete"},
                    {"dtype", dtype_name(multi->dtype)},
                    {"shape", multi->shape},
                    {"nvec", numbers_data(int64, multi->nvec)},
                    {"start", numbers_data(int64, multi->start)}};
    if (const auto* text = std::get_if<Text>(&space.variant())) {
        std::string charset;
        for (const std::string& character : text->characters) charset += character;
        return Json{{"type", "Text"},
                    {"min_length", number_data(int64, Number(text->min_length))},
                    {"max_length", number_data(int64, Number(text->max_length))},
                    {"charset", charset}};
    }
    if (const auto* dict = std::get_if<Dict>(&space.variant())) {
        Json pairs = Json::array();
        for (const auto& [key, member] : dict->spaces)
            pairs.push_back(Json::array({to_json(key), describe(member)}));
        Json description{{"type", "Dict"}, {"spaces", pairs}};
        if (!dict->sort_keys) description["sort_keys"] = false;
        return description;
    }
    if (const auto* tuple = std::get_if<Tuple>(&space.variant()))
        return Json{{"type", "Tuple"}, {"spaces", all(tuple->spaces)}};
    if (const auto* one_of = std::get_if<OneOf>(&space.variant()))
        return Json{{"type", "OneOf"}, {"spaces", all(one_of->spaces)}};
    if (const auto* sequence = std::get_if<Sequence>(&space.variant()))
        return Json{{"type", "Sequence"},
                    {"space", describe(*sequence->space)},
                    {"stack", sequence->stack}};
    if (const auto* opaque = std::get_if<Opaque>(&space.variant())) {
        Json description{{"type", "Opaque"},
                         {"class", opaque->class_name},
                         {"repr", opaque->repr ? Json(*opaque->repr) : Json()},
                         {"base", opaque->base ? describe(*opaque->base) : Json()}};
        if (!opaque->arguments.is_null()) description["arguments"] = opaque->arguments;
        return description;
    }
    const auto& graph = space.as<Graph>();
    return Json{{"type", "Graph"},
                {"node_space", describe(*graph.node_space)},
                {"edge_space", graph.edge_space ? describe(*graph.edge_space) : Json()}};
}

}  // namespace gym_http

#endif
