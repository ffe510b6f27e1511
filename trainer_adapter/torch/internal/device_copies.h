#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <deque>
#include <functional>
#include <vector>

namespace isocost {

/// Blocks until the device's current stream has finished what was queued on it. Throws c10::Error
/// if it cannot.
void wait_for(at::Device device);

/// Copies tensors to one device on a stream of its own, concurrently with the device's computation:
/// the counterpart of Python's isocost.microbatches.device_copies. A source is kept until it has
/// been copied, since a block's next microbatch would otherwise overwrite it. Works with every
/// device whose backend in libtorch has streams and events; nothing here depends on CUDA.
/// Single-thread.
class DeviceCopies {
 public:
  /// Takes a stream from the device's pool. Throws c10::Error for a device that libtorch cannot
  /// use, or that has no streams, like the CPU.
  explicit DeviceCopies(at::Device device);
  at::Device device() const { return stream_.device(); }
  /// Blocks until all copies are done.
  ~DeviceCopies();
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  /// Returns copies of the CPU tensors on the device, in the same order. The device's current
  /// stream waits for them; the calling thread waits only where the backend must stage a source, as
  /// CUDA does from memory that is not pinned. `pin` is called first, with the device current: it
  /// registers their memory (Microbatch::pin). Throws c10::Error where libtorch cannot allocate or
  /// copy; copies that had begun are then done, and no source is kept.
  std::vector<at::Tensor> copy(std::vector<at::Tensor> sources,
                               const std::function<bool()>& pin = {});

 private:
  struct UnderWay {
    c10::Event done;
    std::vector<at::Tensor> sources;
  };

  std::vector<at::Tensor> begin(UnderWay& batch, const std::function<bool()>& pin);
  void forget_done();
  void finish() noexcept;

  c10::Stream stream_;
  std::deque<UnderWay> under_way_;  // in the order of the stream
};

}  // namespace isocost
