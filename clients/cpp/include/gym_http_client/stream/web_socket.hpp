/// @file
/// One WebSocket to one instance, until it is lost.
#ifndef GYM_HTTP_CLIENT_STREAM_WEB_SOCKET_HPP
#define GYM_HTTP_CLIENT_STREAM_WEB_SOCKET_HPP

#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/websocket/stream.hpp>

#include "gym_http_client/stream/frame.hpp"
#include "gym_http_client/stream/curl_stream.hpp"

namespace gym_http::detail {

/// The stream is lost; the request may be sent again, over another one.
class Lost : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The server opens no stream, or refuses this message; HTTP may work.
class NoStream : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A connection that carries messages.
class WebSocket {
public:
    /// Opens a stream.
    /// @param target The path and query of its address, behind that of the server.
    /// @throws Lost The connection failed.
    /// @throws NoStream The handshake is refused, for example by a proxy.
    /// @throws ApiError The server refuses because of the instance.
    /// @throws ProtocolError The answer is of another protocol.
    WebSocket(const Server& server, const std::string& target, const std::string& url,
              const Deadline& deadline)
        : socket_(line_to(server, deadline)), url_(url) {
        namespace ws = boost::beast::websocket;
        socket_.next_layer().set_deadline(deadline);
        socket_.binary(true);
        socket_.auto_fragment(false);
        socket_.write_buffer_bytes(16384 - 14);
        socket_.read_message_max(server.max_body + (std::size_t(64) << 10U) + 16);
        socket_.set_option(ws::stream_base::decorator([&](ws::request_type& request) {
            request.set("Sec-WebSocket-Protocol", protocol);
            if (!server.token.empty())
                request.set("Authorization", "Bearer " + server.token);
        }));
        const auto host = server.url.find("://") + 3;
        const auto path = std::min(server.url.find('/', host), server.url.size());
        const std::string name = server.url.substr(host, path - host);
        ws::response_type response;
        ErrorCode error;
        // Beast gives an answer only if it accepts the handshake.
        std::string answer;
        socket_.next_layer().copy_to(&answer);
        socket_.handshake(response, name, server.url.substr(path) + target, error);
        socket_.next_layer().copy_to(nullptr);
        if (error) throw_handshake(error, answer);
        if (response["Sec-WebSocket-Protocol"] != protocol)
            throw ProtocolError("the stream is of the protocol \"" +
                                    std::string(response["Sec-WebSocket-Protocol"]) +
                                    "\", not of " + protocol,
                                Place{url_, 101, ""});
    }

    /// Sends a message, and waits for its answer.
    /// @throws Lost There is no answer.
    /// @throws NoStream The server does not accept the message over a stream.
    /// @throws ProtocolError The answer is malformed.
    std::shared_ptr<const Bytes> exchange(const std::string& message,
                                          const Deadline& deadline) {
        ErrorCode error;
        socket_.next_layer().set_deadline(deadline);
        socket_.write(net::buffer(message), error);
        if (!error) {
            // Views of the last message keep it alive.
            if (received_.use_count() != 1) received_ = std::make_shared<Bytes>();
            received_->clear();
            auto buffer = net::dynamic_buffer(*received_);
            socket_.read(buffer, error);
        }
        if (error) throw_failure(error);
        if (!socket_.got_binary()) throw ProtocolError("a message arrived that is not binary");
        return received_;
    }

    Announcing announcing{};  ///< Sent signatures of this connection.
    Announced announced{};    ///< Received signatures of this connection.

private:
    static constexpr const char* protocol = "gym-http.v1";
    using Socket = boost::beast::websocket::stream<CurlStream, false>;

    Socket line_to(const Server& server, const Deadline& deadline) {
        try {
            return Socket(CurlStream(context_, server, deadline));
        } catch (const TransportError& error) {
            throw Lost(error.message());
        }
    }

    /// @param answer What was read, from the first line of the answer on.
    [[noreturn]] void throw_handshake(ErrorCode error, const std::string& answer) {
        namespace http = boost::beast::http;
        namespace ws = boost::beast::websocket;
        if (error != ws::error::upgrade_declined && error != ws::condition::handshake_failed)
            throw Lost("the handshake of a stream: " + error.message());
        http::response_parser<http::string_body> parser;
        parser.eager(true);
        ErrorCode malformed;
        parser.put(net::buffer(answer), malformed);
        const int status = static_cast<int>(parser.get().result_int());
        if (error == ws::error::upgrade_declined) throw_refusal(status, parser.get().body());
        throw ProtocolError("the handshake of a stream: " + error.message(),
                            Place{url_, status, ""});
    }

    /// @param status HTTP status of the answer to the handshake.
    /// @param body Body of the answer: a problem, if the server made it.
    [[noreturn]] void throw_refusal(int status, const std::string& body) {
        const std::string refused =
            "the stream was refused with status " + std::to_string(status);
        Value problem;
        try {
            problem = read_json(body);
        } catch (const ProtocolError&) {
            // A page of a proxy's.
            throw NoStream(refused);
        }
        if (is_about_instance(problem) && !is_repeated(status))
            throw_problem(problem, status, url_);
        const Value* message = problem.kind() == Kind::dict ? problem.find("message") : nullptr;
        const bool has_text = message != nullptr && message->kind() == Kind::text;
        throw NoStream(has_text ? refused + ": " + message->text() : refused);
    }

    /// Whether a problem is one that a request over HTTP would meet as well.
    static bool is_about_instance(const Value& problem) {
        const Value* code = problem.kind() == Kind::dict ? problem.find("code") : nullptr;
        if (code == nullptr || code->kind() != Kind::text) return false;
        for (const char* other :
             {"malformed-request", "method-not-allowed", "not-found", "upgrade-required"}) {
            if (code->text() == other) return false;
        }
        return true;
    }

    [[noreturn]] void throw_failure(ErrorCode error) {
        namespace ws = boost::beast::websocket;
        if (error == ws::error::closed) {
            const auto& reason = socket_.reason();
            const unsigned code = reason.code;
            const std::string words = "the stream was closed with " + std::to_string(code) + " " +
                                      std::string(reason.reason.c_str());
            // Another stream would refuse the same message.
            if (code == 1002 || code == 1003 || code == 1007 || code == 1009)
                throw NoStream(words);
            throw Lost(words);
        }
        if (error == ws::error::message_too_big || error == ws::error::buffer_overflow)
            throw ProtocolError("a message has more bytes than allowed", Place{url_, 0, ""});
        if (error == ws::condition::protocol_violation)
            throw ProtocolError("the stream breaks its protocol: " + error.message(),
                                Place{url_, 0, ""});
        throw Lost("the stream was lost: " + error.message());
    }

    net::io_context context_{1};
    Socket socket_;
    std::string url_;
    std::shared_ptr<Bytes> received_ = std::make_shared<Bytes>();
};

}  // namespace gym_http::detail

#endif
