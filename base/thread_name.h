#pragma once

namespace isocost {

/// Names the calling thread for debuggers and profilers (`top -H`, `perf`, gdb): "isocost-" and its
/// task. The kernel cuts names after 15 characters. The name of a process's first thread is the
/// process's. Any thread may call it.
void name_thread(const char* name);

}  // namespace isocost
