#pragma once

namespace isocost {

/// Has the C library keep memory that is freed, up to 32 MiB of each thread's, rather than give it
/// back to the kernel: what a decoder frees after one picture it needs again for the next one, and
/// memory from the kernel comes page by page, each cleared in a page fault. Where the limits of
/// malloc were set for the process (mallopt, GLIBC_TUNABLES), and with another malloc, nothing
/// changes. Process-wide; any thread may call it, at any time.
void keep_freed_memory();

}  // namespace isocost
