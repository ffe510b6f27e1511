#pragma once

#include <cstdint>

namespace isocost {

/// Takes from this process, permanently, what decoding does not need: further descriptors,
/// privileges, core dumps, more than `memory` bytes beyond those mapped now and, where the kernel
/// and the build allow it, every system call except those for memory, time, the sockets it has and
/// its end. Returns whether system calls are filtered.
bool enter_sandbox(std::int64_t memory);

}  // namespace isocost
