// Runs the vectors, and prints a line for each failure.
#ifndef CONFORMANCE_HPP
#define CONFORMANCE_HPP

#include "report.hpp"
#include "web_sockets.hpp"

namespace conformance {

// Whether two trees of JSON are the same; loosely, 1 and 1.0 are, and members in any order.
inline bool same_tree(const Value& a, const Value& b, bool loosely) {
    const auto number = [](const Value& value) {
        return value.kind() == Kind::integer || value.kind() == Kind::real;
    };
    if (loosely && number(a) && number(b) && a.kind() != b.kind()) {
        const Value& integer = a.kind() == Kind::integer ? a : b;
        const Number exact(integer.to<std::int64_t>());
        const Number real((&integer == &a ? b : a).to<double>());
        return at_most(exact, real) && at_most(real, exact);
    }
    if (a.kind() != b.kind()) return false;
    if (a.kind() == Kind::list) {
        if (a.size() != b.size()) return false;
        for (std::size_t at = 0; at < a.size(); ++at) {
            if (!same_tree(a[at], b[at], loosely)) return false;
        }
        return true;
    }
    if (a.kind() == Kind::dict) {
        if (a.size() != b.size()) return false;
        for (std::size_t at = 0; at < a.size(); ++at) {
            const auto& [key, value] = a.members()[at];
            const auto& other = b.members()[at];
            const Value* found = loosely ? b.find(key.text()) : &other.second;
            if (!loosely && key.text() != other.first.text()) return false;
            if (found == nullptr || !same_tree(value, *found, loosely)) return false;
        }
        return true;
    }
    return write_typed_json(a) == write_typed_json(b);
}

inline void values(Report& report, const Json& each) {
    const Json& model = each["value"];
    const bool both = !each.value("decode_only", false);
    if (each["typed"].is_string()) {
        const std::string typed = each["typed"];
        const Value decoded = read_typed_json(typed);
        report.check("typed to be", matches(model, decoded), model.dump(),
                     write_typed_json(decoded));
        const std::string written = both ? write_typed_json(build(model)) : typed;
        report.check("as typed", same_tree(read_json(written, 300), read_json(typed, 300), false),
                     typed, written);
    }
    if (each["binary"].is_string()) {
        const std::string binary = each["binary"];
        const Value decoded = read_binary(unhex(binary));
        report.check("binary to be", matches(model, decoded), model.dump(),
                     write_typed_json(decoded));
        if (both) report.equal("as binary", binary, hex(write_binary(build(model))));
    }
}

inline void numbers(Report& report, const Json& each) {
    const std::string text = each["text"];
    if (each.value("refused", false))
        return report.refused("a refusal", [&] { static_cast<void>(read_json(text)); });
    const Value number = read_json(text);
    report.check("the number", matches(each["value"], number), each["value"].dump(),
                 write_typed_json(number));
    std::string written;
    write_plain(build(each["value"]), written);
    report.check("to be read again", matches(each["value"], read_json(written)),
                 each["value"].dump(), written);
}

inline void spaces(Report& report, const Json& each) {
    if (each.value("refused", false))
        return report.refused("a refusal", [&] { static_cast<void>(read_space(each["space"])); });
    const Space space = read_space(each["space"]);
    const std::string expected = each["space"].dump();
    const std::string actual = write_json(describe(space));
    report.check("the description", same_tree(read_json(expected), read_json(actual), true),
                 expected, actual);
    std::mt19937 generator(7);
    bool all = true;
    for (int sample = 0; sample < each.value("samples", 20); ++sample)
        all = all && space.contains(space.sample(generator));
    report.check("samples to be elements", all, "", "one is none");
}

inline void elements(Report& report, const Json& each) {
    const Space space = read_space(each["space"]);
    const Value value = build(each["value"]);
    const bool member = each["member"];
    report.check("membership", space.contains(value) == member, each["member"].dump(), "other");
    if (!member || !each.contains("plain") || !each["plain"].is_string()) return;
    const std::string plain = each["plain"];
    std::string written;
    write_plain(value, written);
    report.check("plain", same_tree(read_json(plain), read_json(written), true), plain, written);
    const Value read = read_element(space, read_json(plain));
    // Of a Discrete space, 1 and NumPy's 1 are the same element.
    std::string again;
    write_plain(read, again);
    report.check("from plain",
                 space.contains(read) && same_tree(read_json(plain), read_json(again), true),
                 each["value"].dump(), write_typed_json(read));
}

inline void frames(Report& report, const Json& each) {
    const Bytes message = unhex(each["hex"]);
    const span<const unsigned char> view(message.data(), message.size());
    if (each.value("refused", false))
        return report.refused("a refusal", [&] {
            static_cast<void>(detail::Frame::read(view).head(view));
        });
    const Json& outcome = each["frame"];
    const auto frame = detail::Frame::read(view);
    const Value head = frame.head(view);
    const Json actual{{"status", frame.status},
                      {"operation", frame.operation},
                      {"form", frame.form()},
                      {"answer_form", frame.forms >> 4U},
                      {"number", frame.number},
                      {"head", to_json(head)},
                      {"body", hex(Bytes(message.begin() + std::ptrdiff_t(frame.body_start()),
                                         message.end()))}};
    report.check("the frame", actual == outcome, outcome.dump(), actual.dump());
    detail::Frame written;
    const std::string padded = outcome["head"].is_null() ? "" : detail::Frame::head_of(outcome["head"]);
    const Bytes body = unhex(outcome["body"]);
    written.body_size = static_cast<std::uint32_t>(body.size());
    written.head_size = static_cast<std::uint32_t>(padded.size());
    written.status = outcome["status"];
    written.operation = outcome["operation"];
    written.forms = static_cast<std::uint8_t>(outcome["form"].get<unsigned>() |
                                              outcome["answer_form"].get<unsigned>() << 4U);
    written.number = outcome["number"];
    std::string text;
    written.write(text);
    text += padded;
    text.append(body.begin(), body.end());
    report.equal("the bytes", each["hex"], hex(text));
}

inline void signatures(Report& report, const Json& each) {
    detail::Announced announced;
    for (const Json& outcome : each["messages"]) {
        const auto body = std::make_shared<const Bytes>(unhex(outcome["body"]));
        const span<const unsigned char> view(body->data(), body->size());
        if (outcome.value("refused", false)) {
            report.refused("a refusal",
                           [&] { static_cast<void>(announced.read(view, 0, body)); });
            continue;
        }
        const Value value = announced.read(view, 0, body);
        report.check("the value", matches(outcome["value"], value), outcome["value"].dump(),
                     write_typed_json(value));
    }
}

inline void malformed(Report& report, const Json& each) {
    report.refused("a refusal", [&] {
        if (each["form"] == "typed") {
            const Bytes bytes = each.contains("hex") ? unhex(each["hex"])
                                                     : bytes_of(each["text"]);
            static_cast<void>(read_typed_json(std::string(bytes.begin(), bytes.end())));
        } else {
            static_cast<void>(read_binary(unhex(each["hex"])));
        }
    });
}

inline void errors(Report& report, const Json& each) {
    detail::Reply reply;
    reply.status = each["status"];
    reply.content_type = each["headers"].value("content-type", "");
    reply.location = each["headers"].value("location", "");
    *reply.body = bytes_of(each["body"]);
    const Json& expected = each["expected"];
    const Json code = expected["code"].is_null() ? Json("") : expected["code"];
    const auto check = [&](const std::string& kind, const Error& error) {
        const Json message = expected["message"].is_null() ? Json(error.message())
                                                           : expected["message"];
        const auto* const api = dynamic_cast<const ApiError*>(&error);
        const Json actual{{"kind", kind},
                          {"status", error.status()},
                          {"code", error.code()},
                          {"message", error.message()},
                          {"traceback", api == nullptr ? "" : api->traceback()}};
        const Json wanted{{"kind", expected["kind"]},
                          {"status", expected["status"]},
                          {"code", code},
                          {"message", message},
                          {"traceback", each.value("traceback", "")}};
        report.equal("the error", wanted.dump(), actual.dump());
    };
    try {
        detail::throw_refusal(reply, "http://127.0.0.1/");
    } catch (const ApiError& error) {
        check("api", error);
    } catch (const ProtocolError& error) {
        check("protocol", error);
    }
    const bool repeated = detail::is_repeated(reply, each.value("creates", false));
    report.check("to be sent again", repeated == each["retried"], each["retried"].dump(),
                 "other");
}

template <class E>
void transcript(Report& report, const Json& each, const std::string& url) {
    const Json& create = each["create"];
    EnvOptions options;
    options.kwargs = create.value("kwargs", Json::object());
    if (create.contains("max_episode_steps"))
        options.max_episode_steps = create["max_episode_steps"].get<std::int64_t>();
    options.wrappers = create.value("wrappers", Json());
    E env(url, create["env_id"], options);
    const auto check = [&](const char* what, const Json& model, const Value& value) {
        report.check(what, matches(model, value), model.dump(), write_typed_json(value));
    };
    const Reset first = env.reset(each["seed"].get<std::uint64_t>());
    check("observation", each["reset"]["observation"], first.observation);
    check("info", each["reset"]["info"], first.info);
    for (std::size_t at = 0; at < each["steps"].size(); ++at) {
        const Json& outcome = each["steps"][at];
        const Step step = env.step(each["actions"][at]);
        check("observation", outcome["observation"], step.observation);
        check("info", outcome["info"], step.info);
        report.equal("reward", models::double_to_bits(build(outcome["reward"]).to<double>()),
                     models::double_to_bits(step.reward));
        report.check("flags",
                     outcome["terminated"] == step.terminated && outcome["truncated"] == step.truncated,
                     outcome.dump(), "others");
    }
    env.close();
}

inline int run(const std::string& folder, const std::string& url, const std::string& only) {
    using Check = std::function<void(Report&, const Json&)>;
    const std::vector<std::pair<const char*, Check>> files = {
        {"values", values},         {"numbers", numbers},     {"spaces", spaces},
        {"elements", elements},     {"frames", frames},       {"signatures", signatures},
        {"malformed", malformed},   {"errors", errors},       {"websocket", web_sockets},
        {"transcripts", [&](Report& report, const Json& each) {
             transcript<Env>(report, each, url);
             transcript<StreamEnv>(report, each, url);
         }}};
    Report report;
    for (const auto& [name, check] : files) {
        const std::string file = std::string(name) + ".json";
        if ((!only.empty() && only != file && only != name) ||
            (url.empty() && std::string(name) == "transcripts"))
            continue;
        const Json outcome = read_file(folder + "/" + file);
        for (const Json& each : outcome["cases"]) {
            report.begin(file, each["id"]);
            report.guarded([&, &act = check] { act(report, each); });
        }
    }
    return report.finish();
}

}  // namespace conformance

#endif
