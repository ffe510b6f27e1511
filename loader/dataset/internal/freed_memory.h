#pragma once

namespace isocost {

/// Makes glibc keep freed memory instead of returning it to the kernel, as long as less than 32 MiB
/// are free at the end of a heap: a decoder needs the memory that it frees after one picture again
/// for the next one, and memory from the kernel comes page by page, each cleared in a page fault.
/// When a larger block is freed, glibc raises the limit, to at most 64 MiB. Applies to the process
/// and all its heaps. A thread has one. If a limit for mapping or returning memory was
/// set (MALLOC_TRIM_THRESHOLD_, GLIBC_TUNABLES, mallopt), and with another malloc, nothing changes.
/// Any thread may call it.
void keep_freed_memory();

}  // namespace isocost
