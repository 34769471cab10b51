/// @file
/// Use of libcurl: handles, headers, and receivers of answers.
#ifndef GYM_HTTP_CLIENT_CURL_HPP
#define GYM_HTTP_CLIENT_CURL_HPP

#include <curl/curl.h>

#include "gym_http_client/answers.hpp"

namespace gym_http::detail {

struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

inline void add_header(HeaderList& list, const std::string& line) {
    // As from a token that was read from a file along with the end of its line.
    if (line.find_first_of("\r\n") != std::string::npos)
        throw UsageError("a header has a line break in it: is it in the token?");
    curl_slist* longer = curl_slist_append(list.get(), line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    static_cast<void>(list.release());
    list.reset(longer);
}

struct FreeEasy {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
using Easy = std::unique_ptr<CURL, FreeEasy>;

/// A handle of libcurl's, which is set up once for all threads.
inline Easy new_easy() {
    static const CURLcode begun = curl_global_init(CURL_GLOBAL_DEFAULT);
    Easy easy(begun == CURLE_OK ? curl_easy_init() : nullptr);
    if (!easy) throw TransportError("libcurl cannot be set up", "");
    // Signals would be another thread's.
    curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy.get(), CURLOPT_TCP_NODELAY, 1L);
    // As OpenSSL itself and the clients in other languages read it.
    if (const char* trusted = std::getenv("SSL_CERT_FILE"))
        curl_easy_setopt(easy.get(), CURLOPT_CAINFO, trusted);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(easy.get(), CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(easy.get(), CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
    return easy;
}

/// One answer on its way.
struct Receiving {
    Reply reply{};
    std::size_t head = 0;
    std::size_t max_body = 0;
    bool head_ended = false;
    bool too_large = false;
    bool failed = false;
    bool keeps_headers = false;

    static std::size_t take_head(char* data, std::size_t, std::size_t size, void* self) noexcept {
        return static_cast<Receiving*>(self)->head_line({data, size});
    }
    static std::size_t take_body(char* data, std::size_t, std::size_t size, void* self) noexcept {
        return static_cast<Receiving*>(self)->piece(data, size);
    }

private:
    static constexpr std::size_t max_head = std::size_t(64) << 10U;

    std::size_t head_line(std::string_view line) noexcept {
        head += line.size();
        too_large = head > max_head;
        if (too_large) return 0;
        try {
            field(line);
        } catch (...) {
            return 0;
        }
        return line.size();
    }

    void field(std::string_view line) {
        // An answer may follow one like "100 Continue".
        if (line.substr(0, 5) == "HTTP/") reply = Reply();
        head_ended = line == "\r\n" || line == "\n";
        const auto colon = line.find(':');
        if (colon == std::string_view::npos) return;
        std::string name(line.substr(0, colon));
        std::transform(name.begin(), name.end(), name.begin(), [](unsigned char each) {
            return static_cast<char>(std::tolower(each));
        });
        const auto first = line.find_first_not_of(" \t", colon + 1);
        const auto last = line.find_last_not_of(" \t\r\n");
        const std::string value(
            first == line.npos || last < first ? "" : line.substr(first, last + 1 - first));
        if (keeps_headers) reply.headers[name] = value;
        if (name == "content-type") reply.content_type = value;
        if (name == "location") reply.location = value;
        if (name == "retry-after") reply.retry_after = value;
        if (name == "gym-warnings") reply.warnings = value;
        if (name == "gym-node") reply.node = value;
        if (name == "content-length") expect(value);
    }

    void expect(const std::string& digits) {
        const auto size = std::strtoull(digits.c_str(), nullptr, 10);
        too_large = size > max_body;
        if (too_large) throw std::length_error("too large");
        // At most the received bytes: the announced number may be wrong.
        reply.body->reserve(std::min<std::size_t>(size, std::size_t(1) << 20U));
    }

    std::size_t piece(const char* data, std::size_t size) noexcept {
        too_large = size > max_body - reply.body->size();
        if (too_large) return 0;
        try {
            reply.body->insert(reply.body->end(), data, data + size);
        } catch (...) {
            failed = true;
            return 0;
        }
        return size;
    }
};

}  // namespace gym_http::detail

#endif
