#include "tests/trainer_adapter/torch/stub_device.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <c10/util/Optional.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace isocost {

StubDevice& StubDevice::get() {
  static StubDevice stub;
  return stub;
}

void StubDevice::enqueue(const c10::Stream& stream, std::function<void()> work) {
  queues_[stream].push_back({std::move(work), nullptr});
}

bool StubDevice::step(const c10::Stream& stream) {
  std::deque<Work>& queue = queues_[stream];
  if (queue.empty()) return false;
  const Work work = queue.front();
  if (work.waits_for && !work.waits_for->done) return false;
  queue.pop_front();
  if (work.run) work.run();
  return true;
}

void StubDevice::run(const c10::Stream& stream) {
  while (step(stream)) {
  }
}

/// The guard that libtorch asks of every backend.
struct StubGuard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType kType = c10::kPrivateUse1;
  using EventPointer = std::shared_ptr<StubDevice::Event>;

  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {kType, std::exchange(StubDevice::get().current_device_, device.index())};
  }
  c10::Device getDevice() const override { return {kType, StubDevice::get().current_device_}; }
  void setDevice(c10::Device device) const override { exchangeDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { exchangeDevice(device); }
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }

  c10::Stream getStream(c10::Device device) const noexcept override { return current(device); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    return std::exchange(current(stream.device()), stream);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
    return StubDevice::pool_stream(device.has_index() ? device.index() : getDevice().index());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    StubDevice::get().run(stream);
    TORCH_CHECK(StubDevice::get().queued(stream) == 0, "waits for ever");
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = new EventPointer(std::make_shared<StubDevice::Event>());
    const EventPointer recorded = *static_cast<EventPointer*>(*event);
    recorded->done = false;
    StubDevice::get().enqueue(stream, [recorded] { recorded->done = true; });
  }
  void block(void* event, const c10::Stream& stream) const override {
    StubDevice::get().queues_[stream].push_back({{}, *static_cast<EventPointer*>(event)});
  }
  bool queryEvent(void* event) const override { return (*static_cast<EventPointer*>(event))->done; }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<EventPointer*>(event);
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    StubDevice::get().recorded_[memory.get()].push_back(stream);
  }

 private:
  static c10::Stream& current(c10::Device device) {
    return StubDevice::get().current_streams_[static_cast<std::size_t>(device.index())];
  }
};

/// The operators that `to` needs, for tensors without gaps.
struct StubKernels {
  static at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                                  c10::optional<at::ScalarType> dtype,
                                  c10::optional<at::Layout> /*layout*/,
                                  c10::optional<at::Device> device,
                                  c10::optional<bool> /*pinned*/) {
    TORCH_CHECK(StubDevice::get().allocations_until_failure_-- != 0, "out of memory");
    const auto options = at::TensorOptions().dtype(dtype).device(device);
    const auto bytes =
        static_cast<std::size_t>(c10::multiply_integers(sizes)) * options.dtype().itemsize();
    auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    return at::from_blob(
        memory->data(), sizes, strides, [memory](void*) mutable { memory.reset(); }, options,
        device);
  }

  /// From the host to the device, or within it. Like a device's, the copy does not keep its source.
  static at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target,
                              bool non_blocking) {
    TORCH_CHECK(non_blocking && source.is_contiguous() && target.is_contiguous());
    const void* const from = source.data_ptr();
    const StubGuard guard;
    StubDevice::get().enqueue(guard.getStream(target.device()), [from, target] {
      std::memcpy(target.data_ptr(), from, target.nbytes());
    });
    return target;
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, StubGuard)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty_strided", StubKernels::empty_strided);
  library.impl("_copy_from", StubKernels::copy_from);
}

}  // namespace isocost
