#include "decode/isolation/internal/sandbox.h"

#include <fcntl.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <memory>

#include "base/sanitized.h"

namespace isocost {
namespace {

// Returns the bytes that this process maps, as RLIMIT_AS counts them.
rlim_t mapped_bytes() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/statm", "r"),
                                                             std::fclose);
  unsigned long pages = 0;
  if (!file || std::fscanf(file.get(), "%lu", &pages) != 1) return 0;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

void limit(__rlimit_resource what, rlim_t to) {
  const rlimit both{to, to};
  (void)setrlimit(what, &both);  // if this is refused, the limit stays as it was
}

// Filters system calls. A call that is not listed fails with EPERM, as it does without the right to
// make it, and does not kill the process: a C library that tries a newer call then falls back.
bool filter_system_calls() {
  constexpr std::array kAllowed = {
      SCMP_SYS(recvfrom), SCMP_SYS(recvmsg), SCMP_SYS(sendto), SCMP_SYS(sendmsg), SCMP_SYS(read),
      SCMP_SYS(write), SCMP_SYS(close), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(lseek),
      // memory
      SCMP_SYS(brk), SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
      SCMP_SYS(mprotect),
      // threads and time
      SCMP_SYS(futex), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(getpid),
      SCMP_SYS(getppid), SCMP_SYS(gettid), SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),
      SCMP_SYS(setitimer), SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep), SCMP_SYS(getrandom),
      SCMP_SYS(rseq), SCMP_SYS(set_robust_list), SCMP_SYS(restart_syscall),
      // the end
      SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
      SCMP_SYS(sigaltstack), SCMP_SYS(tgkill), SCMP_SYS(exit), SCMP_SYS(exit_group)};
  const std::unique_ptr<void, void (*)(scmp_filter_ctx)> filter(
      seccomp_init(SCMP_ACT_ERRNO(1 /* EPERM */)), seccomp_release);
  if (!filter) return false;
  for (const int call : kAllowed) {
    // A call that this architecture lacks is refused in any case.
    (void)seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0);
  }
  return seccomp_load(filter.get()) == 0;
}

// Codecs print remarks, which would end the process where standard error is a file, since no file
// may grow here.
void drop_remarks_of_codecs() {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  (void)dup2(nowhere, STDERR_FILENO);
  (void)close(nowhere);
}

}  // namespace

bool enter_sandbox(std::int64_t memory) {
  if (!kIsSanitized) drop_remarks_of_codecs();
  (void)std::signal(SIGXFSZ, SIG_IGN);
  const rlim_t now = mapped_bytes();  // read first, since it opens a file
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NPROC, 0);
  (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (kIsSanitized) return false;  // sanitizers map terabytes, and open files to report
  if (now > 0) limit(RLIMIT_AS, now + static_cast<rlim_t>(memory));
  return filter_system_calls();
}

}  // namespace isocost
