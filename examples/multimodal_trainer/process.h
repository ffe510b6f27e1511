#pragma once

namespace isocost {

/// Returns seconds of the machine's monotonic clock, which all processes of a host share.
double now_s();

/// Keeps all freed memory for the next tensor. With glibc's defaults every large tensor is mapped
/// again, and page faults take half of the time of long sequences.
void keep_all_freed_memory();

}  // namespace isocost
