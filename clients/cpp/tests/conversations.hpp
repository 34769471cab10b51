// Conversations of the vectors: an environment with a script, without a network.
#ifndef FARSIDE_HPP
#define FARSIDE_HPP

#include <gym_http_client/serving/conversation.hpp>

#include "report.hpp"

namespace conversations {

using namespace gym_http;
using models::build;
using models::hex;
using models::unhex;

// Whether the client can have a conversation.
inline bool can_converse(const Json& each) {
    if (each["kind"] != "conversation") return false;
    const Json& can = each["capabilities"];
    return (each["dialect"] == "json" || each["dialect"] == "binary") &&
           std::find(can.begin(), can.end(), "attributes") == can.end();
}

// Expected requests and results of the handlers.
class Script {
public:
    explicit Script(const Json& entries) : entries_(entries) {}

    // The next entry, which has to be of this handler.
    const Json& next(const std::string& handler) {
        if (at_ >= entries_.size() || entries_[at_]["handler"] != handler)
            throw std::runtime_error(handler + " is not what the script goes on with");
        return entries_[at_++];
    }

    // Its result, after a check of the request.
    static const Json& gives(const Json& entry) {
        if (entry.contains("raises")) throw std::runtime_error(entry["raises"].get<std::string>());
        return entry["gives"];
    }

    static void expect(const Json& entry, const char* name, const Value& requested) {
        const std::string expected = write_typed_json(build(entry[name]));
        const std::string actual = write_typed_json(requested);
        if (actual != expected)
            throw std::runtime_error(name + (" is " + actual) + ": expected " + expected);
    }

private:
    const Json& entries_;
    std::size_t at_ = 0;
};

inline ProvidedEnv scripted(const Json& each, Script& script) {
    ProvidedEnv provided("scripted", read_space(each["observation_space"]),
                         read_space(each["action_space"]));
    provided.dialect = each["dialect"] == "binary" ? Dialect::binary : Dialect::json;
    provided.capabilities = {"seed", "options"};
    provided.log = [](const std::string&) {};
    provided.reset = [&script](const ResetAsked& requested) {
        const Json& entry = script.next("reset");
        Script::expect(entry, "seed", requested.seed ? Value(*requested.seed) : Value());
        Script::expect(entry, "options", requested.options);
        const Json& gives = Script::gives(entry);
        return Reset{build(gives["observation"]), build(gives["info"])};
    };
    provided.step = [&script](const Value& action) {
        const Json& entry = script.next("step");
        Script::expect(entry, "action", action);
        const Json& gives = Script::gives(entry);
        return Step{build(gives["observation"]), build(gives["reward"]).to<double>(),
                    build(gives["terminated"]).to<bool>(), build(gives["truncated"]).to<bool>(),
                    build(gives["info"])};
    };
    if (!each.contains("render_mode")) return provided;
    provided.render_modes = {each["render_mode"].get<std::string>()};
    provided.render = [&script] { return build(Script::gives(script.next("render"))["rendered"]); };
    return provided;
}

inline std::string shown(const detail::Saying& sending) {
    if (sending.opcode == detail::op_text) return "text\t" + sending.payload;
    return "hex\t" + hex(sending.payload);
}

inline detail::Message message_of(const Json& received) {
    const bool text = received.contains("text");
    const Bytes bytes = text ? conformance::bytes_of(received["text"]) : unhex(received["hex"]);
    return {text ? detail::op_text : detail::op_binary, std::make_shared<Bytes>(bytes)};
}

// Plays a conversation, and prints all messages of the environment.
inline void run_conversation(const Json& each) {
    Script script(each["script"]);
    const ProvidedEnv provided = scripted(each, script);
    detail::Conversation conversation(provided, "http://127.0.0.1:5000", [] {});
    conversation.begin("");
    const std::string id = each["id"];
    for (const Json& received : each["messages"]) {
        if (received["from"] == "environment") {
            const auto sending = conversation.next();
            if (!sending) throw std::runtime_error(id + ": it sends nothing");
            std::cout << id << "\t" << shown(*sending) << "\n";
        } else if (received["from"] == "server") {
            conversation.take(message_of(received));
        } else {
            conversation.begin("");
        }
    }
    while (const auto more = conversation.next())
        std::cout << id << "\t" << shown(*more) << "\n";
}

inline int run(const std::string& folder) {
    const Json outcome = conformance::read_file(folder + "/external.json");
    for (const Json& each : outcome["cases"]) {
        if (can_converse(each)) run_conversation(each);
    }
    return 0;
}

}  // namespace conversations

#endif
