/* Logs a process's calls on files and sockets, and can end it before any of them.

   Preload it. With SYSCALL_LOG=PATH, each call appends a line to the file at PATH:
   writes and sends before they happen, syncs after they succeeded.
   kill_before(n) ends the process by SIGKILL before its n-th call from now on. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static long calls_left = 0;

void kill_before(long number) { calls_left = number; }

static void note(const char *call, const char *path, const char *data, size_t size) {
    const char *log = getenv("SYSCALL_LOG");
    char line[768];
    char shown[65] = "";
    int length, file;
    if (log == NULL) return;
    for (size_t i = 0; i < size && i < 64; i++)
        shown[i] = data[i] > ' ' && data[i] < 127 ? data[i] : '_';
    length = snprintf(line, sizeof line, "%d %s %.500s %s\n", getpid(), call, path, shown);
    file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
                   0600);
    if (file < 0) return;
    syscall(SYS_write, file, line, length);
    syscall(SYS_close, file);
}

static void note_file(const char *call, int file, const char *data, size_t size) {
    char name[32], path[512];
    ssize_t length;
    if (getenv("SYSCALL_LOG") == NULL) return;
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    length = readlink(name, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    note(call, path, data, size);
}

static void step(void) {
    if (calls_left > 0 && --calls_left == 0) kill(getpid(), SIGKILL);
}

#define NEXT(type, name, ...)                                  \
    static type (*next)(__VA_ARGS__);                          \
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, name)

#define WRITES(name, offset_type)                                                  \
    ssize_t name(int file, const void *data, size_t size, offset_type offset) {    \
        NEXT(ssize_t, #name, int, const void *, size_t, offset_type);              \
        step();                                                                    \
        note_file("write", file, data, 0);                                         \
        return next(file, data, size, offset);                                     \
    }
WRITES(pwrite, off_t)
WRITES(pwrite64, off64_t)

#define ON_FILE(name)                          \
    int name(int file) {                       \
        NEXT(int, #name, int);                 \
        step();                                \
        int result = next(file);               \
        if (result == 0) note_file("sync", file, "", 0); \
        return result;                         \
    }
ON_FILE(fsync)
ON_FILE(fdatasync)

#define CUTS(name, type)                       \
    int name(int file, type size) {            \
        NEXT(int, #name, int, type);           \
        step();                                \
        note_file("truncate", file, "", 0);    \
        return next(file, size);               \
    }
CUTS(ftruncate, off_t)
CUTS(ftruncate64, off64_t)

int unlink(const char *path) {
    NEXT(int, "unlink", const char *);
    step();
    note("unlink", path, "", 0);
    return next(path);
}

int rename(const char *from, const char *to) {
    NEXT(int, "rename", const char *, const char *);
    step();
    note("rename", from, to, strlen(to));
    return next(from, to);
}

ssize_t write(int file, const void *data, size_t size) {
    NEXT(ssize_t, "write", int, const void *, size_t);
    step();
    note_file("write", file, data, size);
    return next(file, data, size);
}

ssize_t send(int socket, const void *data, size_t size, int flags) {
    NEXT(ssize_t, "send", int, const void *, size_t, int);
    note_file("send", socket, data, size);
    return next(socket, data, size, flags);
}

ssize_t sendto(int socket, const void *data, size_t size, int flags,
               const struct sockaddr *to, socklen_t length) {
    NEXT(ssize_t, "sendto", int, const void *, size_t, int, const struct sockaddr *,
         socklen_t);
    note_file("send", socket, data, size);
    return next(socket, data, size, flags, to, length);
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags) {
    NEXT(ssize_t, "sendmsg", int, const struct msghdr *, int);
    if (message->msg_iovlen > 0)
        note_file("send", socket, message->msg_iov[0].iov_base,
                  message->msg_iov[0].iov_len);
    return next(socket, message, flags);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    NEXT(ssize_t, "writev", int, const struct iovec *, int);
    step();
    if (count > 0) note_file("write", file, parts[0].iov_base, parts[0].iov_len);
    return next(file, parts, count);
}
