/// @file
/// Streams: environments that step over a WebSocket, which is faster.
///
/// This header needs Boost.Beast, which is headers alone.
#ifndef GYM_HTTP_CLIENT_STREAM_HPP
#define GYM_HTTP_CLIENT_STREAM_HPP

#include <algorithm>
#include <cmath>
#include <iostream>

#include "gym_http_client.hpp"
#include "gym_http_client/stream/node_streams.hpp"

namespace gym_http {

namespace detail {

/// Sends requests over a stream, or over HTTP if there is none. Request n of
/// session S has the key `S-n` over both, so a repeated one is not executed twice.
class StreamTransport : public Transport {
public:
    StreamTransport(Http& http, const std::string& instance_id)
        : rest_(http, instance_id), node_streams_(http, instance_id) {}

    Value send_request(const InstanceRequest& query) override {
        if (number_ == 0xffffffff) begin();
        ++number_;
        try {
            return outcome(query, Deadline(server().timeout_s));
        } catch (const TransportError&) {
            // Whether the request was executed is unknown, so later ones are of another session.
            begin();
            throw;
        }
    }

private:
    const Server& server() { return rest_.http().server(); }
    std::string key() const { return session_ + "-" + std::to_string(number_); }
    std::string url(const InstanceRequest& query) { return rest_.http().url(rest_.path() + path_of(query)); }

    void begin() {
        session_ = random_name();
        number_ = 0;
        lost_at_.reset();
        stream_.reset();
    }

    Value outcome(const InstanceRequest& query, const Deadline& deadline) {
        Pauses pauses;
        std::string last_failure;
        while (true) {
            try {
                if (!open(query, deadline)) return rest_.send_request(query, key(), deadline);
                Value answer = exchange(query, deadline);
                lost_at_.reset();
                return answer;
            } catch (const NoStream&) {
                stream_.reset();
                return rest_.send_request(query, key(), deadline);
            } catch (const Lost& lost) {
                if (stream_ && !lost_at_) lost_at_ = Clock::now();
                stream_.reset();
                // The server may have ended the stream during a message that is
                // too large for it; over HTTP it returns this error with its limit.
                if (query.body.size() > surely_read)
                    return rest_.send_request(query, key(), deadline);
                again(pauses, deadline, with_before(lost.what(), last_failure), query);
                last_failure = lost.what();
            } catch (const ApiError& error) {
                if (!is_repeated(error.status()) || !wait(pauses.next(0), deadline)) throw;
                last_failure = error.message();
            } catch (const ProtocolError& error) {
                // Other messages on this stream have no meaning.
                stream_.reset();
                throw error.at(Place{error.url().empty() ? url(query) : error.url(),
                                     error.status(), ""});
            }
        }
    }

    void again(Pauses& pauses, const Deadline& deadline, const std::string& words,
               const InstanceRequest& query) {
        if (!wait(pauses.next(0), deadline))
            throw TransportError("no answer: " + words, url(query));
    }

    static bool wait(double seconds, const Deadline& deadline) {
        if (seconds >= deadline.left()) return false;
        pause(seconds);
        return true;
    }

    /// Opens a stream if necessary; returns whether there is one.
    bool open(const InstanceRequest& query, const Deadline& deadline) {
        if (stream_) return true;
        if (Clock::now() < rests_until_) return false;
        std::string search = "?session=" + session_;
        if (lost_at_) {
            const std::chrono::duration<double> ago = Clock::now() - *lost_at_;
            search += "&lost=" + write_real(std::floor(ago.count() * 1e3) / 1e3);
        }
        stream_ = node_streams_.open(search, url(query), deadline);
        if (stream_) {
            failed_handshakes_ = 0;
            return true;
        }
        const std::string target = rest_.path() + "stream" + search;
        const double limit = std::min({deadline.left(), server().try_timeout_s, 10.0});
        try {
            stream_ = std::make_unique<WebSocket>(server(), target, url(query), Deadline(limit));
            failed_handshakes_ = 0;
            return true;
        } catch (const Lost&) {
        } catch (const NoStream& refusal) {
            if (failed_handshakes_ + 1 == max_failed_handshakes) warn(url(query), refusal.what());
        }
        ++failed_handshakes_;
        rest();
        return false;
    }

    /// Has streams rest for a while, if too many handshakes have failed in a row.
    void rest() {
        const int further = failed_handshakes_ - max_failed_handshakes;
        if (further < 0) return;
        const double seconds = std::min(first_rest_s * std::exp2(std::min(further, 10)), longest_rest_s);
        rests_until_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(seconds));
    }

    /// Reports why steps are slow, for the operator of a proxy.
    static void warn(const std::string& url, const std::string& refusal) {
        std::clog << "steps go over HTTP, which is slower than a stream: the handshakes of "
                     "streams were refused, last at "
                  << url << ": " << refusal
                  << ". If they lack 'Upgrade: websocket' and 'Connection: Upgrade', a proxy "
                     "between client and server may have removed them. Have the proxy pass "
                     "both headers on for this path; for nginx see deploy/nginx.conf"
                  << std::endl;
    }

    Value exchange(const InstanceRequest& query, const Deadline& deadline) {
        write(query);
        const double limit = std::min(deadline.left(), server().try_timeout_s);
        const auto message = stream_->exchange(message_, Deadline(limit));
        const span<const unsigned char> bytes(message->data(), message->size());
        const Frame frame = Frame::read(bytes);
        if (frame.operation != 0 || frame.number != number_)
            throw ProtocolError("answer " + std::to_string(frame.number) +
                                " arrived instead of answer " + std::to_string(number_));
        const std::size_t start = frame.body_start();
        if (frame.status == 200 && frame.form() == form_binary)
            return stream_->announced.read(bytes, start, message);
        if (frame.status == 204) return Value();
        if (frame.form() == form_plain && frame.status >= 400) {
            const Value problem =
                flattened(read_json(text_at(bytes, start, frame.body_size)));
            rest_.http().warn_of(problem);
            throw_problem(problem, frame.status, url(query));
        }
        throw ProtocolError("the answer with status " + std::to_string(frame.status) +
                            " is neither a value nor a problem");
    }

    void write(const InstanceRequest& query) {
        std::string head;
        if (!query.name.empty()) head = Frame::head_of(Json{{"value", query.name}});
        body_.clear();
        if (query.exact) stream_->announcing.write(query.signature, body_);
        body_ += query.body;
        Frame frame;
        frame.body_size = static_cast<std::uint32_t>(body_.size());
        frame.head_size = static_cast<std::uint32_t>(head.size());
        // All earlier answers have arrived, since each is waited for.
        frame.status = 1;
        frame.operation = static_cast<std::uint8_t>(query.operation);
        const unsigned form = query.exact ? form_binary : query.body.empty() ? form_none : form_plain;
        frame.forms = static_cast<std::uint8_t>(form | unsigned(form_binary) << 4U);
        frame.number = number_;
        message_.clear();
        frame.write(message_);
        message_ += head;
        message_ += body_;
    }

    /// A problem as over HTTP.
    static Value flattened(const Value& problem) {
        const Value* extras = problem.kind() == Kind::dict ? problem.find("extras") : nullptr;
        if (extras == nullptr || extras->kind() != Kind::dict) return problem;
        Value::Members members;
        for (const auto& member : problem.members()) {
            if (member.first.text() != "extras") members.push_back(member);
        }
        for (const auto& member : extras->members()) {
            if (problem.find(member.first.text()) == nullptr) members.push_back(member);
        }
        return Value::dict(std::move(members));
    }

    static constexpr int max_failed_handshakes = 3;
    // Each further failure doubles the time.
    static constexpr double first_rest_s = 0.5;
    static constexpr double longest_rest_s = 300.0;
    // The kernel accepts smaller messages whole, so that the reason for the end of the
    // stream can be read. While a larger one is sent, sending fails.
    static constexpr std::size_t surely_read = std::size_t(64) << 10U;

    Rest rest_;
    NodeStreams node_streams_;
    std::string session_ = random_name();
    std::uint32_t number_ = 0;
    std::unique_ptr<WebSocket> stream_{};
    std::optional<Clock::time_point> lost_at_{};
    int failed_handshakes_ = 0;
    Clock::time_point rests_until_ = Clock::time_point::min();
    std::string body_{};
    std::string message_{};
};

inline std::unique_ptr<Transport> over_stream(Http& http, const std::string& instance_id) {
    return std::make_unique<StreamTransport>(http, instance_id);
}

}  // namespace detail

/// An `Env` that steps over a stream, or over HTTP if no stream can be opened.
class StreamEnv : public Env {
public:
    /// Makes an environment. @see Env::Env
    StreamEnv(Server server, const std::string& env_id, const EnvOptions& options = {})
        : Env(std::move(server), env_id, options, detail::over_stream) {}

    /// Uses an existing environment. @see Env::attach
    static StreamEnv attach(Server server, const std::string& instance_id) {
        return StreamEnv(detail::Attached{std::move(server), instance_id});
    }

private:
    explicit StreamEnv(detail::Attached attached)
        : Env(std::move(attached), detail::over_stream) {}
};

/// A `RealTimeEnv` over streams, or over HTTP if no stream can be opened.
class StreamRealTimeEnv : public RealTimeEnv {
public:
    /// Makes an environment with a clock. @see RealTimeEnv::RealTimeEnv
    StreamRealTimeEnv(Server server, const std::string& env_id, const Json& realtime,
                      const EnvOptions& options = {})
        : RealTimeEnv(std::move(server), env_id, realtime, options, detail::over_stream) {}

    /// Uses an existing environment. @see Env::attach
    static StreamRealTimeEnv attach(Server server, const std::string& instance_id) {
        return StreamRealTimeEnv(detail::Attached{std::move(server), instance_id});
    }

private:
    explicit StreamRealTimeEnv(detail::Attached attached)
        : RealTimeEnv(std::move(attached), detail::over_stream) {}
};

/// A `VectorEnv` that steps over a stream, or over HTTP if no stream can be opened.
class StreamVectorEnv : public VectorEnv {
public:
    /// Makes `num_envs` environments. @see VectorEnv::VectorEnv
    StreamVectorEnv(Server server, const std::string& env_id, std::size_t num_envs,
                    const VectorOptions& options = {})
        : VectorEnv(std::move(server), env_id, num_envs, options, detail::over_stream) {}

    /// Uses an existing vector. @see VectorEnv::attach
    static StreamVectorEnv attach(Server server, const std::string& instance_id) {
        return StreamVectorEnv(detail::Attached{std::move(server), instance_id});
    }

private:
    explicit StreamVectorEnv(detail::Attached attached)
        : VectorEnv(std::move(attached), detail::over_stream) {}
};

}  // namespace gym_http

#endif
