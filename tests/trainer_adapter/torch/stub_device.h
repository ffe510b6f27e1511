#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace isocost {

/// Two devices that libtorch knows as PrivateUse1. Their memory is the host's, and what is queued
/// on their streams happens when a test says so. One for the process, since libtorch keeps a
/// backend for good. Single-thread.
class StubDevice {
 public:
  static StubDevice& get();

  static c10::Device device(c10::DeviceIndex index) { return {c10::kPrivateUse1, index}; }
  /// The stream of the device that is current unless something else is made so.
  static c10::Stream default_stream(c10::DeviceIndex index) {
    return c10::Stream(c10::Stream::DEFAULT, device(index));
  }
  /// The only stream of the device's pool.
  static c10::Stream pool_stream(c10::DeviceIndex index) {
    return c10::Stream(c10::Stream::UNSAFE, device(index), 1);
  }

  /// Forgets everything, as in a fresh process.
  void reset() { *this = StubDevice(); }

  /// Queues work of the test on a stream.
  void enqueue(const c10::Stream& stream, std::function<void()> work);
  /// Does the next work of a stream. Returns false if it has none, or waits for an event.
  bool step(const c10::Stream& stream);
  /// Does all work of a stream that waits for nothing.
  void run(const c10::Stream& stream);
  /// Returns how much work is queued: every copy, record and wait counts.
  std::size_t queued(const c10::Stream& stream) { return queues_[stream].size(); }

  /// Lets one allocation fail: the one after the next n.
  void fail_allocation_after(int n) { allocations_until_failure_ = n; }
  /// Returns the streams that the memory of a tensor was recorded on.
  std::vector<c10::Stream> recorded(const at::Tensor& tensor) {
    return recorded_[tensor.data_ptr()];
  }

 private:
  friend struct StubGuard;
  friend struct StubKernels;

  struct Event {
    bool done = true;
  };
  struct Work {
    std::function<void()> run;
    std::shared_ptr<Event> waits_for;
  };

  c10::DeviceIndex current_device_ = 0;
  std::vector<c10::Stream> current_streams_ = {default_stream(0), default_stream(1)};
  std::unordered_map<c10::Stream, std::deque<Work>> queues_;
  std::unordered_map<const void*, std::vector<c10::Stream>> recorded_;
  int allocations_until_failure_ = -1;
};

}  // namespace isocost
