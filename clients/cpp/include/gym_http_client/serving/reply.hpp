/// @file
/// Handlers: what a program does when it is asked, and how it answers, at once or later.
#ifndef GYM_HTTP_CLIENT_SERVING_REPLY_HPP
#define GYM_HTTP_CLIENT_SERVING_REPLY_HPP

#include <functional>
#include <mutex>
#include <optional>

#include "gym_http_client/error.hpp"

namespace gym_http {

/// What a handler throws to tell an agent what went wrong, with a code.
///
/// With `bad-parameter`, `invalid-action`, `reset-needed` or `unsupported` it says that
/// nothing was done, and the agent may go on; else it has to reset.
class EnvError : public Error {
public:
    /// Makes an error of words and a code.
    explicit EnvError(std::string message, std::string code = "env-error")
        : Error(std::move(message), Place{"", 0, std::move(code)}) {}
};

namespace detail {

/// Where an answer is put, by whichever thread, and from where it is taken.
template <class Result>
struct Slot {
    std::mutex mutex{};
    std::optional<Result> result{};
    std::optional<EnvError> error{};
    std::function<void()> wake{};
};

}  // namespace detail

/// The answer to a request, which is given once: now, some frames later, or by another
/// thread. One that goes without having been given tells the agent of an error. It may
/// outlive what it answers; then it does nothing.
template <class Result>
class Reply {
public:
    /// One that answers nothing.
    Reply() = default;
    /// @cond
    explicit Reply(std::shared_ptr<detail::Slot<Result>> slot) : slot_(std::move(slot)) {}
    /// @endcond
    Reply(Reply&&) noexcept = default;  ///< Leaves one that answers nothing.
    /// Drops what was here.
    Reply& operator=(Reply&& other) noexcept {
        if (this != &other) {
            drop();
            slot_ = std::move(other.slot_);
        }
        return *this;
    }
    Reply(const Reply&) = delete;
    Reply& operator=(const Reply&) = delete;
    ~Reply() { drop(); }  ///< Tells of an error, if it was not given.

    /// Whether it waits to be given.
    explicit operator bool() const noexcept { return slot_ != nullptr; }

    /// Answers.
    void operator()(Result result) {
        settle([&](auto& slot) { slot.result.emplace(std::move(result)); });
    }

    /// Answers that it failed. @see EnvError
    void fail(std::string message, std::string code = "env-error") {
        settle([&](auto& slot) { slot.error.emplace(std::move(message), std::move(code)); });
    }

private:
    template <class Put>
    void settle(Put put) {
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
            // Without memory there is no answer.
        }
    }

    std::shared_ptr<detail::Slot<Result>> slot_{};
};

/// A function that answers requests. It is made of a callable that is given what is
/// asked for, and returns the answer; or of one that is given a `Reply` besides, and
/// answers by that.
template <class Result, class... Asked>
class Handler {
public:
    /// None.
    Handler() = default;
    /// Takes a callable.
    template <class Act, std::enable_if_t<!std::is_same_v<std::decay_t<Act>, Handler>, int> = 0>
    Handler(Act act) {
        if constexpr (std::is_invocable_v<Act&, const Asked&..., Reply<Result>>) {
            act_ = std::move(act);
        } else {
            static_assert(std::is_invocable_v<Act&, const Asked&...>,
                          "a handler takes what is asked for, and maybe a Reply by value");
            using Given = std::invoke_result_t<Act&, const Asked&...>;
            act_ = [act = std::move(act)](const Asked&... asked, Reply<Result> reply) mutable {
                if constexpr (std::is_void_v<Given>) {
                    act(asked...);
                    reply(Result{});
                } else {
                    reply(Result(act(asked...)));
                }
            };
        }
    }

    /// Whether there is one.
    explicit operator bool() const noexcept { return bool(act_); }
    /// Asks it.
    void operator()(const Asked&... asked, Reply<Result> reply) const {
        act_(asked..., std::move(reply));
    }

private:
    std::function<void(const Asked&..., Reply<Result>)> act_{};
};

}  // namespace gym_http

#endif
