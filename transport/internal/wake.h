#pragma once

#include <cstdint>

namespace isocost {

/// Wakes a thread that polls sockets: an eventfd, since ZeroMQ sockets may be used by one thread
/// only.
class Wake {
 public:
  Wake();
  ~Wake();
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;

  void notify();  ///< From any thread.
  void drain();   ///< From the thread that polls.
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace isocost
