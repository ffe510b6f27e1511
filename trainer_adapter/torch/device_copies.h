#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <deque>
#include <vector>

#include "trainer_adapter/client.h"
#include "trainer_adapter/torch/loader.h"

namespace isocost {

/// Copies microbatches to one device, on a stream of its own, beside what the device computes.
/// Tensors in shared memory are copied from there once their block is registered with the CUDA
/// runtime (Microbatch::pin), others through libtorch's pinned memory. What is copied is kept until
/// that is done: a block's next microbatch would otherwise overwrite it. Single-thread; the thread
/// has the device current. Throws c10::Error for a device without streams, such as the CPU.
class DeviceCopies {
 public:
  explicit DeviceCopies(c10::Device device);

  /// Returns the microbatch with its tensors on the device. The stream that is current waits for
  /// them, the calling thread does not.
  TorchMicrobatch copy(const Microbatch& microbatch);

 private:
  struct Copy {
    c10::Event done;
    std::vector<at::Tensor> sources;
  };

  c10::Device device_;
  c10::Stream stream_;
  std::deque<Copy> under_way_;
};

}  // namespace isocost
