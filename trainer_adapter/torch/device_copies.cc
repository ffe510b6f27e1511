#include "trainer_adapter/torch/device_copies.h"

#include <ATen/Context.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace isocost {
namespace {

using c10::impl::VirtualGuardImpl;

// Only CUDA has memory to pin.
at::Tensor pinned(const at::Tensor& tensor) {
  const bool pins = at::globalContext().hasCUDA() && !tensor.is_pinned();
  return pins ? tensor.pin_memory() : tensor;
}

}  // namespace

DeviceCopies::DeviceCopies(c10::Device device)
    : device_(device), stream_(VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}

TorchMicrobatch DeviceCopies::copy(const Microbatch& microbatch) {
  while (!under_way_.empty() && under_way_.front().done.query()) under_way_.pop_front();
  if (microbatch.pin) microbatch.pin();  // where it cannot be, libtorch's memory serves
  TorchMicrobatch result = to_torch(microbatch);
  const VirtualGuardImpl device(device_.type());
  const c10::Stream current = device.getStream(device_);
  Copy copy{c10::Event(device_.type()), {}};
  {
    const c10::StreamGuard guard(stream_);
    for (auto& [name, tensor] : result.tensors) {
      copy.sources.push_back(pinned(tensor));
      tensor = copy.sources.back().to(device_, /*non_blocking=*/true);
    }
    copy.done.record(stream_);
  }
  copy.done.block(current);
  for (const auto& [name, tensor] : result.tensors) {
    // Its memory is not used again before what the current stream does with it.
    device.recordDataPtrOnStream(tensor.storage().data_ptr(), current);
  }
  under_way_.push_back(std::move(copy));
  return result;
}

}  // namespace isocost
