/// @file
/// Handlers: the functions of a program, which answer at once or later.
#ifndef GYM_HTTP_CLIENT_SERVING_REPLY_HPP
#define GYM_HTTP_CLIENT_SERVING_REPLY_HPP

#include <functional>
#include <mutex>
#include <optional>

#include "gym_http_client/error.hpp"

namespace gym_http {

/// An exception of a handler with a code for the agent.
///
/// `bad-parameter`, `invalid-action`, `reset-needed` and `unsupported` state that
/// nothing has changed, and the agent may continue; otherwise it must reset.
class EnvError : public Error {
public:
    /// Makes an error from a message and a code.
    explicit EnvError(std::string message, std::string code = "env-error")
        : Error(std::move(message), Place{"", 0, std::move(code)}) {}
};

namespace detail {

/// The place of an answer, for the thread that writes and the one that reads it.
template <class Result>
struct Slot {
    std::mutex mutex{};
    std::optional<Result> result{};
    std::optional<EnvError> error{};
    std::function<void()> wake{};
};

}  // namespace detail

/// The answer to a request, which is called once: now, some frames later, or by another
/// thread. If it is destroyed without a call, the agent gets an error. It may
/// outlive its request; then it has no effect.
template <class Result>
class Reply {
public:
    /// One that answers nothing.
    Reply() = default;
    /// @cond
    explicit Reply(std::shared_ptr<detail::Slot<Result>> slot) : slot_(std::move(slot)) {}
    /// @endcond
    Reply(Reply&&) noexcept = default;  ///< Makes one without a request.
    /// Discards the present request.
    Reply& operator=(Reply&& other) noexcept {
        if (this != &other) {
            drop();
            slot_ = std::move(other.slot_);
        }
        return *this;
    }
    Reply(const Reply&) = delete;
    Reply& operator=(const Reply&) = delete;
    ~Reply() { drop(); }  ///< Answers with an error, if it was not answered.

    /// Whether its request waits for the answer.
    explicit operator bool() const noexcept { return slot_ != nullptr; }

    /// Answers.
    void operator()(Result result) {
        complete([&](auto& slot) { slot.result.emplace(std::move(result)); });
    }

    /// Answers that it failed. @see EnvError
    void fail(std::string message, std::string code = "env-error") {
        complete([&](auto& slot) { slot.error.emplace(std::move(message), std::move(code)); });
    }

private:
    template <class Put>
    void complete(Put put) {
        const auto slot = std::move(slot_);
        slot_ = nullptr;
        if (!slot) return;
        const std::lock_guard<std::mutex> lock(slot->mutex);
        put(*slot);
        if (slot->wake) slot->wake();
    }

    void drop() noexcept {
        try {
            fail("the environment does not answer this");
        } catch (...) {
            // Without memory the request gets no answer.
        }
    }

    std::shared_ptr<detail::Slot<Result>> slot_{};
};

/// A function that answers requests. It is made from a callable of the
/// arguments that returns the answer; or from one with a `Reply` as the last argument,
/// which answers later.
template <class Result, class... Asked>
class Handler {
public:
    /// Empty.
    Handler() = default;
    /// From a callable.
    template <class Act, std::enable_if_t<!std::is_same_v<std::decay_t<Act>, Handler>, int> = 0>
    Handler(Act act) {
        if constexpr (std::is_invocable_v<Act&, const Asked&..., Reply<Result>>) {
            act_ = std::move(act);
        } else {
            static_assert(std::is_invocable_v<Act&, const Asked&...>,
                          "a handler takes the arguments of its request, and optionally a Reply by value");
            using Given = std::invoke_result_t<Act&, const Asked&...>;
            act_ = [act = std::move(act)](const Asked&... requested, Reply<Result> reply) mutable {
                if constexpr (std::is_void_v<Given>) {
                    act(requested...);
                    reply(Result{});
                } else {
                    reply(Result(act(requested...)));
                }
            };
        }
    }

    /// Whether it is not empty.
    explicit operator bool() const noexcept { return bool(act_); }
    /// Calls it.
    void operator()(const Asked&... requested, Reply<Result> reply) const {
        act_(requested..., std::move(reply));
    }

private:
    std::function<void(const Asked&..., Reply<Result>)> act_{};
};

}  // namespace gym_http

#endif
