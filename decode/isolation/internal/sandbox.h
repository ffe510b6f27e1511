#pragma once

#include <cstdint>

namespace isocost {

/// Takes from this process, for good, what decoding does not need: further descriptors, privileges,
/// core dumps, memory beyond `memory` bytes more than now and, where the kernel and the build allow
/// it, every system call but those for memory, time, the sockets it has and its end. Returns
/// whether system calls are filtered.
bool enter_sandbox(std::int64_t memory);

}  // namespace isocost
