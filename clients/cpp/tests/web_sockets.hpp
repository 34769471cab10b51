// The WebSocket of provided environments, against the vectors.
#ifndef WEB_SOCKETS_HPP
#define WEB_SOCKETS_HPP

#include <gym_http_client/serving/messages.hpp>
#include <gym_http_client/serving/sha1.hpp>

#include "report.hpp"

namespace conformance {

inline std::deque<detail::Message> messages_in(const Bytes& bytes) {
    detail::MessageReader reader(std::size_t(1) << 20U);
    std::deque<detail::Message> arrived;
    // In the worst case, a byte at a time.
    for (const unsigned char each : bytes) reader.feed({&each, 1}, arrived);
    return arrived;
}

inline void read_messages(Report& report, const Json& each) {
    const Bytes bytes = unhex(each["from_server"]);
    if (each.contains("refused"))
        return report.refused("a refusal", [&] { static_cast<void>(messages_in(bytes)); });
    const auto arrived = messages_in(bytes);
    const Json& outcome = each["messages"];
    report.equal("messages", std::to_string(outcome.size()), std::to_string(arrived.size()));
    for (std::size_t at = 0; at < std::min(outcome.size(), arrived.size()); ++at) {
        report.equal("an opcode", outcome[at]["opcode"].dump(), std::to_string(arrived[at].opcode));
        report.equal("a payload", outcome[at]["payload"].get<std::string>(),
                     hex(*arrived[at].payload));
    }
}

inline void frame_of_client(Report& report, const Json& each, const std::string& payload) {
    std::uint32_t mask = 0;
    std::memcpy(&mask, unhex(each["mask"]).data(), sizeof mask);
    std::string written;
    detail::append_message(static_cast<detail::Opcode>(each["opcode"].get<int>()), payload, mask,
                           written, each["fin"].get<bool>());
    const std::string actual = hex(written);
    if (each.contains("hex")) return report.equal("the frame", each["hex"], actual);
    const std::string begin = each["hex_prefix"];
    report.equal("the frame's beginning", begin, actual.substr(0, begin.size()));
}

inline void frame_of_server(Report& report, const Json& each, const std::string& payload) {
    Bytes bytes = unhex(each.contains("hex") ? each["hex"] : each["hex_prefix"]);
    if (!each.contains("hex")) {
        const std::size_t head = payload.size() < 65536 ? 4 : 10;
        bytes.resize(head);
        bytes.insert(bytes.end(), payload.begin(), payload.end());
    }
    if (!each["fin"].get<bool>()) bytes.insert(bytes.end(), {0x80, 0x00});
    const auto arrived = messages_in(bytes);
    report.equal("messages", "1", std::to_string(arrived.size()));
    if (arrived.empty()) return;
    report.equal("the opcode", each["opcode"].dump(), std::to_string(arrived[0].opcode));
    report.equal("the payload", hex(payload), hex(*arrived[0].payload));
}

inline void web_sockets(Report& report, const Json& each) {
    if (each.contains("key"))
        return report.equal("the answer to a key", each["accept"], detail::accept_of(each["key"]));
    if (each.contains("from_server")) return read_messages(report, each);
    std::string payload;
    if (each.contains("payload_repeat")) {
        const Json& outcome = each["payload_repeat"];
        const auto byte = static_cast<char>(outcome["byte"].get<int>());
        payload.assign(outcome["count"].get<std::size_t>(), byte);
    } else {
        const Bytes bytes = unhex(each["payload"]);
        payload.assign(bytes.begin(), bytes.end());
    }
    if (each["mask"].is_null())
        frame_of_server(report, each, payload);
    else
        frame_of_client(report, each, payload);
}

}  // namespace conformance

#endif
