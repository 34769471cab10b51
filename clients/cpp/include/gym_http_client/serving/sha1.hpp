/// @file
/// SHA-1, by which the handshake of a WebSocket shows that it is one.
#ifndef GYM_HTTP_CLIENT_SERVING_SHA1_HPP
#define GYM_HTTP_CLIENT_SERVING_SHA1_HPP

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "gym_http_client/text.hpp"

namespace gym_http::detail {

/// The state of SHA-1 between blocks of 64 bytes.
class Sha1 {
public:
    void block(const unsigned char* bytes) {
        std::array<std::uint32_t, 80> words{};
        for (std::size_t at = 0; at < 16; ++at)
            words[at] = std::uint32_t(bytes[4 * at]) << 24U |
                        std::uint32_t(bytes[4 * at + 1]) << 16U |
                        std::uint32_t(bytes[4 * at + 2]) << 8U | bytes[4 * at + 3];
        for (std::size_t at = 16; at < 80; ++at)
            words[at] = turned(
                words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16], 1);
        auto [a, b, c, d, e] = state_;
        for (std::size_t at = 0; at < 80; ++at) {
            const std::uint32_t mixed = at < 20   ? ((b & c) | (~b & d)) + 0x5a827999U
                                        : at < 40 ? (b ^ c ^ d) + 0x6ed9eba1U
                                        : at < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdcU
                                                  : (b ^ c ^ d) + 0xca62c1d6U;
            const std::uint32_t next = turned(a, 5) + mixed + e + words[at];
            e = d;
            d = c;
            c = turned(b, 30);
            b = a;
            a = next;
        }
        const std::array<std::uint32_t, 5> sums{a, b, c, d, e};
        for (std::size_t at = 0; at < 5; ++at) state_[at] += sums[at];
    }

    Bytes digest() const {
        Bytes bytes;
        for (const std::uint32_t word : state_) {
            for (unsigned shift = 32; shift > 0; shift -= 8)
                bytes.push_back(static_cast<unsigned char>(word >> (shift - 8) & 255U));
        }
        return bytes;
    }

private:
    static std::uint32_t turned(std::uint32_t word, unsigned by) {
        return word << by | word >> (32 - by);
    }

    std::array<std::uint32_t, 5> state_{0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U,
                                        0xc3d2e1f0U};
};

/// The SHA-1 of a text, 20 bytes.
inline Bytes sha1(std::string_view text) {
    std::string padded(text);
    padded += '\x80';
    padded.append((120 - padded.size() % 64) % 64, '\0');
    for (unsigned shift = 64; shift > 0; shift -= 8)
        padded += static_cast<char>(std::uint64_t(text.size()) * 8 >> (shift - 8) & 255U);
    Sha1 state;
    for (std::size_t at = 0; at < padded.size(); at += 64)
        state.block(reinterpret_cast<const unsigned char*>(padded.data()) + at);
    return state.digest();
}

/// The answer to the key of a WebSocket's handshake.
inline std::string accept_of(const std::string& key) {
    const Bytes digest = sha1(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    return write_base64({digest.data(), digest.size()});
}

}  // namespace gym_http::detail

#endif
