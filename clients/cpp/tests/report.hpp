// Counts of passed and failed vectors.
#ifndef REPORT_HPP
#define REPORT_HPP

#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>

#include "models.hpp"

namespace conformance {

using namespace gym_http;
using models::build;
using models::hex;
using models::matches;
using models::unhex;

inline Json read_file(const std::string& path) {
    std::ifstream file(path);
    if (!file) {
        std::cerr << path << " is not there\n";
        std::exit(2);
    }
    return Json::parse(file);
}

inline std::string shown(const std::string& text) {
    return text.size() > 400 ? text.substr(0, 400) + "…" : text;
}

inline Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// Counts passes and failures in one file.
class Report {
public:
    void begin(const std::string& file, const std::string& id) {
        file_ = file;
        id_ = id;
    }

    void check(const std::string& aspect, bool good, const std::string& expected,
               const std::string& actual) {
        ++(good ? passed_ : failed_);
        if (good) return;
        std::cout << "FAIL " << file_ << " " << id_ << ": expected " << aspect << " "
                  << shown(expected) << ", actual " << shown(actual) << "\n";
    }

    void equal(const std::string& aspect, const std::string& expected,
               const std::string& actual) {
        check(aspect, expected == actual, expected, actual);
    }

    // Malformed input raises an error of the protocol.
    void refused(const std::string& aspect, const std::function<void()>& act) {
        try {
            act();
            check(aspect, false, "a ProtocolError", "none");
        } catch (const ProtocolError&) {
            check(aspect, true, "", "");
        }
    }

    // Other errors fail the case instead of ending the run.
    void guarded(const std::function<void()>& act) {
        try {
            act();
        } catch (const std::exception& error) {
            check("no error", false, "", error.what());
        }
    }

    int finish() const {
        std::cout << passed_ << " passed, " << failed_ << " failed\n";
        return failed_ == 0 ? 0 : 1;
    }

private:
    std::string file_{};
    std::string id_{};
    int passed_ = 0;
    int failed_ = 0;
};

}  // namespace conformance

#endif
