#include "trainer_adapter/torch/internal/device_copies.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/TensorOptions.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <utility>

namespace isocost {

void wait_for(at::Device device) {
  c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

DeviceCopies::DeviceCopies(at::Device device)
    : stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}

DeviceCopies::~DeviceCopies() {
  if (!under_way_.empty()) finish();
}

void DeviceCopies::finish() noexcept {
  try {
    stream_.synchronize();
  } catch (...) {  // the device has failed, so nothing reads the sources any more
  }
}

std::vector<at::Tensor> DeviceCopies::copy(std::vector<at::Tensor> sources,
                                           const std::function<bool()>& pin) {
  forget_done();
  under_way_.push_back({c10::Event(stream_.device_type()), std::move(sources)});
  try {
    return begin(under_way_.back(), pin);
  } catch (...) {
    finish();  // copies that have begun still read their sources
    under_way_.pop_back();
    throw;
  }
}

std::vector<at::Tensor> DeviceCopies::begin(UnderWay& batch, const std::function<bool()>& pin) {
  const c10::impl::VirtualGuardImpl backend(stream_.device_type());
  const c10::Stream current = backend.getStream(stream_.device());
  std::vector<at::Tensor> copies;
  copies.reserve(batch.sources.size());
  {
    const c10::StreamGuard guard(stream_);
    if (pin) pin();  // without it, the backend stages the copies
    for (const at::Tensor& source : batch.sources) {
      copies.push_back(
          source.to(at::TensorOptions().device(stream_.device()), /*non_blocking=*/true));
    }
    batch.done.record(stream_);
  }
  batch.done.block(current);
  for (const at::Tensor& copy : copies) {
    // Keeps the copy's memory from reuse before the current stream has finished with it.
    backend.recordDataPtrOnStream(copy.storage().data_ptr(), current);
  }
  return copies;
}

void DeviceCopies::forget_done() {
  while (!under_way_.empty() && under_way_.front().done.query()) under_way_.pop_front();
}

}  // namespace isocost
