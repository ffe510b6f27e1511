#pragma once

// Checks that the compiler can compile the installed headers. cmake/WriteHeaders.cmake has each of
// them include this file first. #error alone would let dozens of other errors follow, so a header
// that does not exist ends the compilation.

#if __cplusplus < 202002L
#error "Isocost's headers are C++20: compile with -std=c++20 or later (g++ 12, clang 16 or newer)."
#include <compile with -std=c++20>
#endif

#include <version>

#if !defined(__cpp_lib_source_location)
#error "Isocost's headers need std::source_location: use g++ 12, clang 16 or newer."
// Debian 12's default clang is version 14; apt-get install clang-16.
#include <use clang 16 or newer>
#endif
