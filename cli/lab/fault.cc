#include "cli/lab/fault.h"

#include <utility>

namespace isocost::cli {

void Fault::raise(Error error) {
  {
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  source_.request_stop();
}

std::optional<Error> Fault::error() const {
  const MutexLock lock(mutex_);
  return error_;
}

}  // namespace isocost::cli
