#pragma once

namespace isocost {

/// Names the calling thread for debuggers and profilers (`top -H`, `perf`, gdb): "isocost-" and
/// what it does. The kernel cuts names after 15 characters. That of a process's first thread is the
/// process's. Any thread may call it.
void name_thread(const char* name);

}  // namespace isocost
