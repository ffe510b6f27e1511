// Copies to a device with streams, for which libtorch's device without memory, "meta", stands in:
// what would happen on its streams is recorded.
#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainer_adapter/torch/device_copies.h"

namespace isocost {
namespace {

using Log = std::vector<std::string>;

constexpr c10::StreamId kCompute = 0;
constexpr c10::StreamId kCopies = 7;

std::string name_of(c10::StreamId id) { return id == kCopies ? "copies" : "compute"; }

// The streams of the device. An event is a number, and done when the test says so.
class Streams final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::Meta; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Device getDevice() const override { return {type(), 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(current_); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(kCopies); }
  c10::Stream exchangeStream(c10::Stream next) const noexcept override {
    log_.push_back("switch to " + name_of(next.id()));
    return stream(std::exchange(current_, next.id()));
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    log_.push_back(name_of(stream.id()) + " records");
    *event = new std::uintptr_t(++events_);
  }
  void block(void*, const c10::Stream& stream) const override {
    log_.push_back(name_of(stream.id()) + " waits");
  }
  bool queryEvent(void* event) const override {
    return done_.contains(*static_cast<std::uintptr_t*>(event));
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<std::uintptr_t*>(event);
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream& stream) const override {
    log_.push_back(name_of(stream.id()) + " uses a copy");
  }

  Log take_log() const { return std::exchange(log_, {}); }
  void end_event(std::uintptr_t number) const { done_.insert(number); }
  void reset() const {
    log_.clear();
    done_.clear();
    events_ = 0;
    current_ = kCompute;
  }

 private:
  static c10::Stream stream(c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::Meta, 0), id);
  }
  // The interface is const; there is one thread.
  mutable c10::StreamId current_ = kCompute;
  mutable Log log_;
  mutable std::uintptr_t events_ = 0;
  mutable std::set<std::uintptr_t> done_;
};

// libtorch never destroys what is registered.
const Streams& streams() {
  static const Streams* const one = [] {
    const auto* made = new Streams;
    const c10::impl::DeviceGuardImplRegistrar registrar(c10::DeviceType::Meta, made);
    return made;
  }();
  return *one;
}

class TorchDeviceCopies : public testing::Test {
 protected:
  void SetUp() override { streams().reset(); }

  // Of one tensor, whose memory `owner` keeps.
  static Microbatch microbatch(const std::shared_ptr<std::vector<std::byte>>& owner, int* pins) {
    Microbatch made;
    made.tensors.push_back({"vision.patches", {DType::kUInt8, {2, 8}, owner->data(), owner}});
    made.pin = [pins] {
      *pins += 1;
      return true;
    };
    return made;
  }

  const c10::Device device_{c10::DeviceType::Meta, 0};
};

TEST_F(TorchDeviceCopies, TheCopyIsOnAStreamOfItsOwnAndTheCurrentOneWaits) {
  DeviceCopies copies(device_);
  const auto bytes = std::make_shared<std::vector<std::byte>>(16);
  int pins = 0;
  const TorchMicrobatch copy = copies.copy(microbatch(bytes, &pins));
  EXPECT_EQ(pins, 1);
  EXPECT_EQ(copy.find("vision.patches").device().type(), c10::DeviceType::Meta);
  EXPECT_EQ(copy.find("vision.patches").sizes(), (std::vector<std::int64_t>{2, 8}));
  EXPECT_EQ(streams().take_log(), (Log{"switch to copies", "copies records", "switch to compute",
                                       "compute waits", "compute uses a copy"}));
}

TEST_F(TorchDeviceCopies, ASourceIsKeptUntilItIsCopied) {
  DeviceCopies copies(device_);
  const auto first = std::make_shared<std::vector<std::byte>>(16);
  const auto second = std::make_shared<std::vector<std::byte>>(16);
  int pins = 0;
  copies.copy(microbatch(first, &pins));
  copies.copy(microbatch(second, &pins));
  EXPECT_EQ(first.use_count(), 2);
  EXPECT_EQ(second.use_count(), 2);
  streams().end_event(1);
  copies.copy(microbatch(second, &pins));
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_EQ(second.use_count(), 3);
}

}  // namespace
}  // namespace isocost
