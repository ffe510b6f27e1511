/* Included before every file of a self-contained wheel: names the old version of each symbol whose
 * newest one is not in glibc 2.34 or in the libstdc++ of GCC 11, so that what Debian 12's compiler
 * makes also runs on RHEL 9. */
#if !defined(__ASSEMBLER__)
__asm__(".symver hypot,hypot@GLIBC_2.2.5"); /* newer: errno as C23 wants it (2.35) */
#if defined(__cplusplus)
/* std::condition_variable::wait, which became noexcept (GLIBCXX_3.4.30) */
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
#endif
#endif
