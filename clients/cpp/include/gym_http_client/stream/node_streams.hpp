/// @file
/// Streams at the node of a fleet that has an instance, instead of through another one.
#ifndef GYM_HTTP_CLIENT_STREAM_NODE_STREAMS_HPP
#define GYM_HTTP_CLIENT_STREAM_NODE_STREAMS_HPP

#include "gym_http_client/stream/web_socket.hpp"

namespace gym_http::detail {

/// Returns where a node of a fleet is by the URL of an instance's stream; nothing if the URL
/// is not good. With TLS at the first address, no stream goes without.
/// @param path The stream's, below the node's address.
inline std::optional<std::string> node_of(std::string url, const std::string& first,
                                          const std::string& path) {
    static constexpr const char* allowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:/%[]~_-";
    const bool secured = url.rfind("wss://", 0) == 0;
    if (!secured && (url.rfind("ws://", 0) != 0 || first.rfind("http://", 0) != 0)) return {};
    if (url.back() == '/') url.pop_back();
    const std::size_t place = url.find("://") + 3;
    if (url.size() <= place + path.size() || url.find_first_not_of(allowed) != url.npos ||
        url.compare(url.size() - path.size(), path.size(), path) != 0)
        return {};
    return "http" + url.substr(2, url.size() - 2 - path.size());
}

/// Opens the streams of one instance at its node. A ticket opens them: the token is sent
/// only to the address that the user named.
class NodeStreams {
public:
    NodeStreams(Http& http, const std::string& instance_id) : http_(http), id_(instance_id) {}

    /// Opens a stream; returns nothing if there is none. On a server without a fleet, this
    /// sends nothing.
    /// @param query Of the stream's address.
    /// @param url Of the request, for errors.
    std::unique_ptr<WebSocket> open(const std::string& query, const std::string& url,
                                    const Deadline& deadline) {
        if (!http_.in_fleet() || !wanted_) return nullptr;
        const auto limit = [&] { return Deadline(std::min(seconds, deadline.left())); };
        try {
            const Json issued = ticket(limit());
            const std::string path = "/v1/envs/" + id_ + "/stream";
            const auto found =
                node_of(text_in(issued, "stream_url"), http_.server().url, path);
            // Another ticket would have the same URL.
            wanted_ = found.has_value();
            if (!found) return nullptr;
            Server node = http_.server();
            node.url = *found;
            node.token.clear();
            const std::string target =
                path + query + "&ticket=" + quoted(text_in(issued, "ticket"));
            return std::make_unique<WebSocket>(node, target, url, limit());
        } catch (const std::runtime_error&) {
            // The first address works, or has the reason.
            return nullptr;
        }
    }

private:
    // In which a node must answer; then the stream goes through the first address.
    static constexpr double seconds = 1;

    Json ticket(const Deadline& deadline) {
        Request request;
        request.method = "POST";
        request.path = "/v1/tickets/";
        request.accept = "application/json";
        request.key = random_name();
        request.body = write_json(Json{{"instance_id", id_}});
        const Reply reply = http_.send(request, deadline);
        if (reply.status != 200) throw_refusal(reply, http_.url(request.path));
        return to_json(read_json(reply.text()));
    }

    static std::string text_in(const Json& issued, const char* name) {
        const auto found = issued.find(name);
        return found != issued.end() && found->is_string() ? found->get<std::string>() : "";
    }

    Http& http_;
    std::string id_;
    bool wanted_ = true;
};

}  // namespace gym_http::detail

#endif
