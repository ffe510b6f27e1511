#pragma once

namespace isocost {

/// Has glibc keep freed memory rather than give it back to the kernel, as long as less than 32 MiB
/// are free at the end of a heap: what a decoder frees after one picture it needs again for the
/// next one, and memory from the kernel comes page by page, each cleared in a page fault. Where a
/// larger block is freed, glibc raises the limit, to at most 64 MiB. It holds for the process and
/// all its heaps, of which a thread has one. Where a limit for mapping or giving back memory was
/// set (MALLOC_TRIM_THRESHOLD_, GLIBC_TUNABLES, mallopt), and with another malloc, nothing changes.
/// Any thread may call it.
void keep_freed_memory();

}  // namespace isocost
