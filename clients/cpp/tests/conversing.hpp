// Messages of a provided environment and calls of its author after lost connections, and
// how bytes are split into messages: tests without a server.
#ifndef CONVERSING_HPP
#define CONVERSING_HPP

#include <gym_http_client/serve.hpp>

#include "checks.hpp"

namespace conversing {

using namespace gym_http;

// A conversation with a corridor whose steps and creation are answered when a test decides.
struct Corridor {
    std::vector<std::string> arrived{};
    Reply<StepGiven> step{};
    Reply<Spaces> making{};
    int resets = 0;
    ProvidedEnv provided = described();
    detail::Conversation conversation{provided, "http://127.0.0.1:5000", [] {}};

    ProvidedEnv described() {
        ProvidedEnv made("corridor", spaces::discrete(5), spaces::discrete(2));
        made.log = [](const std::string&) {};
        made.on_agent = [this] { arrived.emplace_back("arrived"); };
        made.on_agent_gone = [this] { arrived.emplace_back("left"); };
        made.reset = [this](const ResetAsked&) { return Reset{resets++, {}}; };
        made.step = [this](const Value&, Reply<StepGiven> reply) { step = std::move(reply); };
        return made;
    }

    // Passes a message to it, and returns its messages.
    std::string send_message(const std::string& text) {
        const auto payload = std::make_shared<Bytes>(text.begin(), text.end());
        conversation.take({detail::op_text, payload});
        return received();
    }
    std::string received() {
        conversation.flush();
        const auto sending = conversation.next();
        return sending ? sending->payload : "";
    }
    std::string send_request(int id, const std::string& type) {
        const std::string action = type == "step" ? R"(,"action":1)" : "";
        return send_message(R"({"type":")" + type + R"(","id":)" + std::to_string(id) + action + "}");
    }
    void connect(bool resumed) {
        conversation.begin("");
        received();
        const std::string way = resumed ? "true" : "false";
        send_message(R"({"type":"welcome","connection":"c4d1e0f2","resume":"a","heartbeat_s":60,)"
            R"("resumed":)" +
            way + "}");
    }
    void begin_step() {
        connect(false);
        send_request(1, "init");
        send_request(2, "reset");
        check(send_request(3, "step").empty(), "a step that is at work is not answered");
    }
    void end_step() { step(Step{1, 1.0, false, false, {}}); }
};

using Events = std::vector<std::string>;

inline void an_agent_goes_once() {
    Corridor corridor;
    corridor.begin_step();
    corridor.connect(false);
    check(corridor.arrived == Events{"arrived", "left"}, "the server forgot the agent");
    check(corridor.send_request(1, "init").empty(), "handlers run one after the other");
    corridor.end_step();
    check(corridor.received().find(R"({"id":1,"result")") == 0, "init is answered, and no step");
    check(corridor.arrived == Events{"arrived", "left", "arrived"}, "another agent arrived");
    corridor.conversation.end();
    check(corridor.arrived.back() == "left" && corridor.arrived.size() == 4, "and went");
}

inline void nothing_is_left_of_what_was_forgotten() {
    Corridor corridor;
    corridor.provided.init = [&](const InitAsked&, Reply<Spaces> reply) {
        corridor.making = std::move(reply);
    };
    corridor.connect(false);
    corridor.send_request(1, "init");
    corridor.send_request(2, "reset");
    corridor.connect(false);
    corridor.making(Spaces{});
    check(corridor.received().empty() && corridor.arrived.empty(), "a forgotten request brings no agent");
    check(corridor.resets == 0, "what was not begun is not done");
}

inline void answers_wait_for_a_request() {
    Corridor corridor;
    corridor.begin_step();
    corridor.connect(true);
    corridor.end_step();
    check(corridor.received().empty(), "no request was received on this connection yet");
    const std::string answer = corridor.send_request(3, "step");
    check(answer.find(R"({"id":3,"result")") == 0, "the step is answered, and was not done again");
    corridor.connect(true);
    check(corridor.received().empty() && corridor.send_request(3, "step") == answer, "as often as it is requested");
    check(corridor.arrived == Events{"arrived"}, "the agent was there all the time");
}

inline void a_refused_provider_has_no_agent() {
    Corridor corridor;
    corridor.connect(false);
    corridor.send_request(1, "init");
    corridor.conversation.begin("a-token");
    check(corridor.received().find(R"("token":"a-token")") != std::string::npos, "a token is shown");
    corridor.send_message(R"({"type":"refused","code":"unauthorized","message":"no"})");
    check(corridor.conversation.refusal()->code() == "unauthorized", "it is refused");
    check(corridor.arrived == Events{"arrived", "left"}, "and the agent is gone");
}

inline void ids_are_in_their_range() {
    Corridor corridor;
    corridor.connect(false);
    for (const char* id : {"-1", "4294967296", "1e2", "\"1\"", "99999999999999999999"})
        check_throws<ProtocolError>(
            [&] { corridor.send_message(R"({"type":"init","id":)" + std::string(id) + "}"); }, id);
}

inline void messages_are_counted() {
    detail::CountedCarrier carrier;
    std::string written;
    carrier.append(detail::op_text, "{}", written);
    carrier.append(detail::op_binary, std::string(258, 'x'), written);
    carrier.append(detail::op_text, "", written);
    check(written == std::string("\2\0\0\0{}\2\1\0\0", 10) + std::string(258, 'x') +
                         std::string(4, '\0'),
          "counts go before messages");
    std::deque<detail::Message> arrived;
    for (const char each : written) {
        const auto byte = static_cast<unsigned char>(each);
        carrier.feed({&byte, 1}, arrived);
    }
    check(arrived.size() == 3 && arrived[0].text() == "{}" && arrived[1].payload->size() == 258 &&
              arrived[2].payload->empty(),
          "messages that arrive in pieces");
    const Bytes both(written.begin(), written.end());
    carrier.feed({both.data(), both.size()}, arrived);
    check(arrived.size() == 6 && arrived[4].text() == arrived[1].text(), "messages at once");
    const Bytes lie{1, 0, 0, 4};
    check_throws<ProtocolError>([&] { carrier.feed({lie.data(), lie.size()}, arrived); },
                                "a message is announced that is too large");
}

inline void targets_are_read() {
    const Target tcp("tcp://:secret@there:5001/");
    check(tcp.plain_tcp && tcp.url() == "tcp://there:5001" && tcp.server.token == "secret", "TCP");
    check(!Target("http://there").plain_tcp && Target("tcp://[::1]:9").plain_tcp, "others");
    check(Target("tcp://there:65535").plain_tcp, "the last port");
    check(Target("tcp://there:1", "shown").server.token == "shown", "a token beside");
    for (const char* wrong : {"tcp://there", "tcp://:5001", "tcp://there:port", "tcp://there:1/x",
                              "tcp://there:0", "tcp://there:65536", "tcp://there:100000",
                              "tcp://", "udp://there:1", "there:1"})
        check_throws<UsageError>([&] { const Target none(wrong); }, wrong);
    try {
        const Target none("tcp://:secret@there");
    } catch (const UsageError& error) {
        check(error.message() == "\"tcp://there\" is no address of plain TCP: "
                                 "\"tcp://127.0.0.1:5001\" would be",
              error.what());
    }
}

inline void all() {
    an_agent_goes_once();
    nothing_is_left_of_what_was_forgotten();
    answers_wait_for_a_request();
    a_refused_provider_has_no_agent();
    ids_are_in_their_range();
    messages_are_counted();
    targets_are_read();
}

}  // namespace conversing

#endif
