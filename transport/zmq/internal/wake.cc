#include "transport/zmq/internal/wake.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <system_error>

namespace isocost {

Wake::Wake() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Wake::~Wake() { close(descriptor_); }

void Wake::notify() { eventfd_write(descriptor_, 1); }

void Wake::drain() {
  eventfd_t ignored = 0;
  eventfd_read(descriptor_, &ignored);
}

}  // namespace isocost
