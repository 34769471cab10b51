// How the native tests check.
#ifndef GYM_HTTP_TESTS_CHECKS_HPP
#define GYM_HTTP_TESTS_CHECKS_HPP

#include <iostream>

inline int failures = 0;

inline void check(bool good, const char* what) {
    if (good) return;
    ++failures;
    std::cout << "FAIL " << what << "\n";
}

template <class Thrown, class Act>
void check_throws(Act act, const char* what) {
    try {
        act();
        check(false, what);
    } catch (const Thrown&) {
    }
}

#endif
