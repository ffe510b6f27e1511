#include "transport/zmq/internal/polling.h"

#include <csignal>

namespace isocost {

void block_signals() {
  sigset_t all;
  sigfillset(&all);
  // These signals report faults of this thread's own instructions; blocked, they would end the
  // process.
  for (const int fault : {SIGBUS, SIGFPE, SIGILL, SIGSEGV}) sigdelset(&all, fault);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

void poll_items(std::span<zmq::pollitem_t> items, std::chrono::milliseconds most) {
  for (zmq::pollitem_t& item : items) item.revents = 0;
  // The only possible failure is EINTR, which a stopped and continued program may see even with
  // signals blocked.
  static_cast<void>(zmq_poll(items.data(), static_cast<int>(items.size()), most.count()));
}

}  // namespace isocost
