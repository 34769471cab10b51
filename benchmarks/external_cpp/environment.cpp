// An external environment, as those of Tango: a grid at the other end of a WebSocket.
//
// Usage: environment PORT PATH
//
// It answers until the connection ends. It knows Tango's messages alone, so the same
// program serves behind Tango's gateway and behind our server. It takes next to nothing, so
// that what is measured is what lies between.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

constexpr int side = 8;
constexpr int places = side * side;
constexpr int episode = 500;
enum Opcode : unsigned { text = 1, close_frame = 8, ping = 9, pong = 10 };

// Walks a piece over a grid, for so many steps an episode.
class Grid {
public:
    Grid() {
        for (int place = 0; place < places; ++place)
            for (const bool over : {false, true})
                answers_[over][place] = "{\"observation\":" + seen(place) +
                                     ",\"info\":{},\"reward\":1.0,\"terminated\":" +
                                     (over ? "true" : "false") + ",\"truncated\":false}";
        begun_ = "{\"observation\":" + seen(0) + ",\"info\":{}}";
    }

    // Executes a message: {"type":"action","action":"1"}, reset or close, with or
    // without blanks.
    const std::string& answer(const std::string& message) {
        if (message.find("\"reset\"") != std::string::npos) {
            place_ = steps_ = 0;
            return begun_;
        }
        const std::size_t digit = message.find_last_of("0123456789");
        if (digit == std::string::npos) return ended_;
        place_ = (place_ + (message[digit] % 2 ? side : 1)) % places;
        return answers_[++steps_ >= episode][place_];
    }

private:
    static std::string seen(int place) {
        std::string written = "[";
        for (int at = 0; at < places; ++at) {
            written += at % side ? "," : at ? ",[" : "[";
            written += at == place ? "4" : "0";
            if (at % side == side - 1) written += "]";
        }
        return written + "]";
    }

    std::array<std::array<std::string, places>, 2> answers_;
    std::string begun_;
    std::string ended_ = "{\"info\":\"closed\"}";
    int place_ = 0;
    int steps_ = 0;
};

class Line {
public:
    Line(std::uint16_t port, const std::string& path) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int on = 1;
        socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
        ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address))
            throw std::runtime_error("there is no server at port " + std::to_string(port));
        const std::string head = "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" +
                                 std::to_string(port) +
                                 "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                                 "Sec-WebSocket-Version: 13\r\n"
                                 "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
        ::send(socket_, head.data(), head.size(), MSG_NOSIGNAL);
        std::size_t end;
        while ((end = come_.find("\r\n\r\n")) == std::string::npos)
            if (!receive()) throw std::runtime_error("there is no WebSocket: " + come_);
        if (come_.find(" 101 ") > end) throw std::runtime_error(come_);
        come_.erase(0, end + 4);
    }

    // Sends a masked frame of less than 64 KiB.
    void send(unsigned opcode, const std::string& payload) {
        const auto key = static_cast<std::uint32_t>(random_());
        said_.assign(1, static_cast<char>(0x80 | opcode));
        if (payload.size() < 126) {
            said_ += static_cast<char>(0x80 | payload.size());
        } else {
            said_ += static_cast<char>(0x80 | 126);
            said_ += static_cast<char>(payload.size() >> 8);
            said_ += static_cast<char>(payload.size());
        }
        char mask[4];
        for (int at = 0; at < 4; ++at) said_ += mask[at] = static_cast<char>(key >> 8 * at);
        for (std::size_t at = 0; at < payload.size(); ++at)
            said_ += static_cast<char>(payload[at] ^ mask[at & 3]);
        ::send(socket_, said_.data(), said_.size(), MSG_NOSIGNAL);
    }

    // Waits for a frame of less than 64 KiB; gives its opcode, 0 if the connection has ended.
    unsigned receive(std::string& payload) {
        while (true) {
            const auto [start, size] = first();
            if (start) {
                const unsigned opcode = byte(0) & 15;
                payload.assign(come_, start, size);
                come_.erase(0, start + size);
                return opcode;
            }
            if (!receive()) return 0;
        }
    }

private:
    std::size_t byte(std::size_t at) const { return static_cast<unsigned char>(come_[at]); }

    // Gives where the payload of the first frame begins, and its size; zeros if it is not
    // there as a whole.
    std::pair<std::size_t, std::size_t> first() const {
        if (come_.size() < 2) return {0, 0};
        std::size_t start = 2, size = byte(1);
        if (size == 126) {
            if (come_.size() < 4) return {0, 0};
            start = 4;
            size = byte(2) << 8 | byte(3);
        }
        if (come_.size() < start + size) return {0, 0};
        return {start, size};
    }

    bool receive() {
        char data[4096];
        const ssize_t size = ::recv(socket_, data, sizeof data, 0);
        if (size > 0) come_.append(data, static_cast<std::size_t>(size));
        return size > 0;
    }

    int socket_;
    std::string come_;
    std::string said_;
    std::minstd_rand random_{std::random_device{}()};
};

void serve(std::uint16_t port, const std::string& path) {
    Line line(port, path);
    Grid grid;
    std::string payload;
    while (const unsigned opcode = line.receive(payload)) {
        if (opcode == ping) line.send(pong, payload);
        if (opcode == close_frame) return;
        if (opcode == text) line.send(text, grid.answer(payload));
    }
}

}  // namespace

int main(int count, char** words) {
    if (count != 3) {
        std::cerr << "usage: environment PORT PATH\n";
        return 2;
    }
    try {
        serve(static_cast<std::uint16_t>(std::stoi(words[1])), words[2]);
    } catch (const std::exception& error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
