/// @file
/// The standard input and output of a program that the server has started.
#ifndef GYM_HTTP_CLIENT_SERVING_STANDARD_STREAMS_HPP
#define GYM_HTTP_CLIENT_SERVING_STANDARD_STREAMS_HPP

#ifndef _WIN32
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <thread>

#include "gym_http_client/serving/messages.hpp"

namespace gym_http::detail {

#ifdef _WIN32

/// Standard input and output, which programs on Windows cannot use: the server needs Linux.
class StandardStreams {
public:
    [[noreturn]] static StandardStreams& own() {
        throw UsageError("\"stdio:\" needs Linux or macOS");
    }
    int input() const { return -1; }
    std::size_t receive(void*, std::size_t) { return 0; }
    std::size_t send(const void*, std::size_t) { return 0; }
    void close() {}
};

#else

/// Standard input and output, for messages alone.
///
/// From then on, what the program prints goes to standard error, and it reads nothing from
/// standard input. The program ends when that does, also within a handler.
class StandardStreams {
public:
    /// Those of this process.
    /// @throws UsageError Standard input is a terminal or /dev/null, or one of both is closed.
    static StandardStreams& own() {
        static StandardStreams streams;
        return streams;
    }

    /// The descriptor to wait for.
    int input() const { return input_; }

    /// Receives the available bytes; 0 if there are none.
    /// @throws ConnectionLost It has ended.
    std::size_t receive(void* data, std::size_t size) const {
        pollfd arrived{input_, POLLIN, 0};
        if (poll(&arrived, 1, 0) <= 0) return 0;
        const auto received = read(input_, data, size);
        if (received <= 0) throw ConnectionLost("standard input has ended");
        return static_cast<std::size_t>(received);
    }

    /// Sends bytes, and waits for the server, which reads at once. Returns their number.
    /// @throws ConnectionLost It is closed.
    std::size_t send(const void* data, std::size_t size) const {
        const auto sent = write(output_, data, size);
        if (sent < 0 && errno != EINTR) throw ConnectionLost("standard output is closed");
        return sent < 0 ? 0 : static_cast<std::size_t>(sent);
    }

    /// Closes the output, so that the server ends the instance.
    void close() {
        ::close(output_);
        output_ = -1;
    }

private:
    StandardStreams() {
        struct stat found {};
        if (fstat(STDIN_FILENO, &found) == 0 && S_ISCHR(found.st_mode))
            throw UsageError(
                "standard input is a terminal or /dev/null: \"stdio:\" is for programs that "
                "a server starts (serve --env-command NAME=COMMAND)");
        input_ = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        output_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (input_ < 0 || output_ < 0)
            throw UsageError("standard input or output is closed, and \"stdio:\" needs both");
        const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
        dup2(nothing, STDIN_FILENO);
        ::close(nothing);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        // Otherwise the last lines would be lost at the end.
        std::setvbuf(stdout, nullptr, _IOLBF, 0);
        std::cout << std::unitbuf;
        std::thread([input = input_] { end_with(input); }).detach();
    }

    [[noreturn]] static void end_with(int input) {
        // Without events, only its end ends the wait.
        pollfd end{input, 0, 0};
        while (poll(&end, 1, -1) < 0 && errno == EINTR) continue;
        _exit(0);
    }

    int input_ = -1;
    int output_ = -1;
};

#endif

}  // namespace gym_http::detail

#endif
