// Copies to a device whose streams the test runs by hand: they overlap with what the device
// computes, and nothing is released too early or kept for too long.

#include "trainer_adapter/torch/internal/device_copies.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/random.h"
#include "tests/trainer_adapter/torch/hand_made.h"
#include "tests/trainer_adapter/torch/stub_device.h"
#include "trainer_adapter/client.h"
#include "trainer_adapter/torch/torch_loader.h"

namespace isocost {
namespace {

const c10::Device kDevice = StubDevice::device(1);
const c10::Stream kCompute = StubDevice::default_stream(1);
const c10::Stream kCopies = StubDevice::pool_stream(1);

/// A tensor on the host, of which the test sees whether anyone still keeps it.
class Source {
 public:
  explicit Source(std::vector<float> values)
      : values_(std::make_shared<std::vector<float>>(std::move(values))), kept_(values_) {}

  /// Hands over the only reference.
  at::Tensor tensor() {
    float* const data = values_->data();
    const auto count = static_cast<std::int64_t>(values_->size());
    return at::from_blob(data, {count}, [this, owner = std::move(values_)](void*) mutable {
      owner.reset();
      copies_left_at_release_ = StubDevice::get().queued(kCopies);
    });
  }

  bool is_kept() const { return !kept_.expired(); }
  /// Returns the work that the copies' stream had left when the tensor was released.
  std::optional<std::size_t> copies_left_at_release() const { return copies_left_at_release_; }

 private:
  std::shared_ptr<std::vector<float>> values_;
  std::weak_ptr<std::vector<float>> kept_;
  std::optional<std::size_t> copies_left_at_release_;
};

template <typename T = float>
std::vector<T> values(const at::Tensor& tensor) {
  const T* const data = tensor.data_ptr<T>();
  return {data, data + tensor.numel()};
}

class DeviceCopiesTest : public testing::Test {
 protected:
  DeviceCopiesTest() { stub_.reset(); }

  StubDevice& stub_ = StubDevice::get();
};

TEST_F(DeviceCopiesTest, TheCurrentStreamWaitsForTheCopies) {
  Source a({1, 2}), b({3});
  DeviceCopies copies(kDevice);
  const std::vector<at::Tensor> copied = copies.copy({a.tensor(), b.tensor()});
  ASSERT_EQ(copied.size(), 2U);
  EXPECT_EQ(copied[0].device(), kDevice);

  std::vector<std::vector<float>> seen;
  stub_.enqueue(kCompute, [&] { seen = {values(copied[0]), values(copied[1])}; });
  stub_.run(kCompute);
  EXPECT_TRUE(seen.empty());
  EXPECT_TRUE(stub_.step(kCopies));  // the first copy is not enough
  EXPECT_TRUE(stub_.step(kCopies));
  stub_.run(kCompute);
  EXPECT_TRUE(seen.empty());
  stub_.run(kCopies);
  stub_.run(kCompute);
  EXPECT_EQ(seen, (std::vector<std::vector<float>>{{1, 2}, {3}}));
}

TEST_F(DeviceCopiesTest, TheCopiesDoNotWaitForWhatTheDeviceComputes) {
  Source a({1, 2});
  DeviceCopies copies(kDevice);
  stub_.enqueue(kCompute, [] { FAIL() << "nobody runs it"; });
  const std::vector<at::Tensor> copied = copies.copy({a.tensor()});
  stub_.run(kCopies);
  EXPECT_EQ(values(copied[0]), (std::vector<float>{1, 2}));
}

TEST_F(DeviceCopiesTest, TheAllocatorLearnsWhichStreamUsesTheCopy) {
  Source a({1});
  DeviceCopies copies(kDevice);
  const std::vector<at::Tensor> copied = copies.copy({a.tensor()});
  EXPECT_EQ(stub_.recorded(copied[0]), std::vector<c10::Stream>{kCompute});
}

TEST_F(DeviceCopiesTest, SourcesAreKeptUntilTheyAreCopiedAndNoLonger) {
  Source first({1}), second({2}), third({3});
  DeviceCopies copies(kDevice);
  copies.copy({first.tensor()});
  copies.copy({second.tensor()});
  EXPECT_TRUE(stub_.step(kCopies));  // the copy, but not the event
  copies.copy({third.tensor()});
  EXPECT_TRUE(first.is_kept());
  EXPECT_TRUE(stub_.step(kCopies));
  copies.copy({});
  EXPECT_FALSE(first.is_kept());
  EXPECT_TRUE(second.is_kept());
  EXPECT_TRUE(third.is_kept());
  stub_.run(kCopies);
  copies.copy({});
  EXPECT_FALSE(second.is_kept());
  EXPECT_FALSE(third.is_kept());
}

TEST_F(DeviceCopiesTest, DestructionWaitsForTheCopies) {
  Source a({1, 2});
  std::vector<at::Tensor> copied;
  {
    DeviceCopies copies(kDevice);
    copied = copies.copy({a.tensor()});
  }
  EXPECT_EQ(a.copies_left_at_release(), 0U);
  EXPECT_EQ(values(copied[0]), (std::vector<float>{1, 2}));
}

TEST_F(DeviceCopiesTest, ADeviceThatHasFailedIsNoHarmToDestruction) {
  Source a({1});
  c10::Event never(kDevice.type());
  never.record(kCompute);
  never.block(kCopies);  // the stub refuses to wait for that
  {
    DeviceCopies copies(kDevice);
    copies.copy({a.tensor()});
  }
  EXPECT_FALSE(a.is_kept());
}

TEST_F(DeviceCopiesTest, ACopyThatFailsLeavesNothingBehind) {
  Source first({1}), second({2}), third({3});
  DeviceCopies copies(kDevice);
  stub_.fail_allocation_after(1);
  EXPECT_THROW(copies.copy({first.tensor(), second.tensor()}), c10::Error);
  EXPECT_EQ(first.copies_left_at_release(), 0U);  // it was read until then
  EXPECT_FALSE(second.is_kept());
  EXPECT_EQ(stub_.queued(kCompute), 0U);

  const std::vector<at::Tensor> copied = copies.copy({third.tensor()});
  stub_.run(kCopies);
  EXPECT_EQ(values(copied[0]), std::vector<float>{3});
}

TEST_F(DeviceCopiesTest, MemoryIsRegisteredBeforeTheCopiesWithTheDeviceCurrent) {
  const c10::impl::VirtualGuardImpl backend(kDevice.type());
  Source a({1});
  DeviceCopies copies(kDevice);
  int registered = 0;
  copies.copy({a.tensor()}, [&] {
    EXPECT_EQ(backend.getDevice(), kDevice);
    EXPECT_EQ(stub_.queued(kCopies), 0U);
    ++registered;
    return false;  // if it cannot be, they are copied unpinned
  });
  EXPECT_EQ(registered, 1);
  EXPECT_GT(stub_.queued(kCopies), 0U);
  EXPECT_EQ(backend.getDevice(), StubDevice::device(0));
  EXPECT_EQ(backend.getStream(kDevice), kCompute);
}

TEST_F(DeviceCopiesTest, ADeviceWithoutAnIndexIsTheCurrentOne) {
  c10::impl::VirtualGuardImpl(kDevice.type()).setDevice(kDevice);
  Source a({1});
  DeviceCopies copies(kDevice.type());
  EXPECT_EQ(copies.copy({a.tensor()})[0].device(), kDevice);
}

TEST_F(DeviceCopiesTest, ADeviceWithoutBackendOrStreamsIsRefused) {
  EXPECT_THROW(DeviceCopies(at::kFPGA), c10::Error);
  EXPECT_THROW(DeviceCopies(at::kCPU), c10::Error);
}

// Nobody listens there: it does not come to that.
TEST_F(DeviceCopiesTest, ALoaderAsksForTheDeviceBeforeItTakesARank) {
  LoaderOptions options;
  options.endpoint = "tcp://127.0.0.1:1";
  options.device = at::kFPGA;
  try {
    const TorchLoader loader(options);
    ADD_FAILURE() << "libtorch has no such device here";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("fpga"), std::string::npos);
  }
}

/// Has one microbatch after the other, without a node.
class HandMadeClient final : public Client {
 public:
  explicit HandMadeClient(std::vector<Microbatch> microbatches)
      : microbatches_(std::move(microbatches)) {}

  Result<std::optional<Microbatch>> next(const std::stop_token& /*stop*/) override {
    if (taken_ == microbatches_.size()) return std::optional<Microbatch>();
    return std::optional<Microbatch>(std::move(microbatches_[taken_++]));
  }

  const Welcome& welcome() const override { return welcome_; }
  bool wait(std::chrono::milliseconds /*limit*/) override { return true; }
  void use(const Position& /*position*/, std::chrono::nanoseconds /*waited*/) override {}
  void acknowledge() override {}
  Status trained(const Position& /*position*/) override { return {}; }
  void revoke(const Position& /*position*/) override {}
  std::optional<Position> resume_point() const override { return {}; }
  const std::optional<EpochEnd>& epoch_end() const override { return epoch_end_; }
  Status report(const Report& /*report*/) override { return {}; }
  Status send_profile(const ProfileUpdate& /*update*/) override { return {}; }
  void close() override {}
  void leave() override { left = true; }
  std::int64_t bytes_copied() const override { return 0; }
  std::int64_t bytes_in_use() const override { return pool_.bytes_in_use(); }
  const BufferPool& pool() const override { return pool_; }

  bool left = false;  // without an acknowledgement

 private:
  std::vector<Microbatch> microbatches_;
  std::size_t taken_ = 0;
  Welcome welcome_;
  std::optional<EpochEnd> epoch_end_;
  BufferPool pool_;
};

/// Tests of the calls that users make.
class LoaderWithADevice : public DeviceCopiesTest {
 protected:
  std::unique_ptr<Client> client() {
    std::vector<Microbatch> microbatches;
    for (const HandMadeSample& sample : samples_) {
      microbatches.push_back(assemble({&sample, 1}, 5, pool_));
      microbatches.back().pin = [this] { return ++registered_ > 0; };
    }
    return std::make_unique<HandMadeClient>(std::move(microbatches));
  }

  Random random_ = Random(7);
  std::vector<HandMadeSample> samples_ = {make_sample(4, {{2, 4}}, {8}, 6, random_),
                                          make_sample(9, {}, {}, 3, random_)};
  BufferPool pool_;
  int registered_ = 0;
};

TEST_F(LoaderWithADevice, MicrobatchesArriveThere) {
  TorchLoader loader(client(), kDevice);
  const std::int64_t bytes_of_both = pool_.bytes_in_use();
  const TorchMicrobatch first = loader.next().value();
  stub_.run(kCopies);
  EXPECT_EQ(values<std::int64_t>(first["input_ids"]), samples_[0].input_ids);
  EXPECT_EQ(values<std::uint8_t>(first["vision_patches"]), samples_[0].patches);
  for (const auto& [name, tensor] : first.tensors) EXPECT_EQ(tensor.device(), kDevice) << name;
  EXPECT_EQ(registered_, 1);
  EXPECT_EQ(pool_.bytes_in_use(), bytes_of_both);

  const TorchMicrobatch second = loader.next().value();
  EXPECT_EQ(second.header.samples[0].id, 9U);
  EXPECT_EQ(registered_, 2);
  EXPECT_LT(pool_.bytes_in_use(), bytes_of_both);
  EXPECT_GT(pool_.bytes_in_use(), 0);
  stub_.run(kCopies);
  EXPECT_EQ(values<std::int64_t>(second["input_ids"]), samples_[1].input_ids);
  EXPECT_FALSE(loader.next().has_value());
}

TEST_F(LoaderWithADevice, AMicrobatchThatCouldNotBeCopiedIsTriedAgain) {
  TorchLoader loader(client(), kDevice);
  stub_.fail_allocation_after(1);
  EXPECT_THROW((void)loader.next(), c10::Error);
  const TorchMicrobatch first = loader.next().value();
  EXPECT_EQ(first.header.samples[0].id, 4U);
  stub_.run(kCopies);
  EXPECT_EQ(values<std::int64_t>(first["input_ids"]), samples_[0].input_ids);
  EXPECT_EQ(loader.next().value().header.samples[0].id, 9U);
}

TEST_F(LoaderWithADevice, AClosedLoaderDoesNotAcknowledgeWhatCouldNotBeCopied) {
  TorchLoader loader(client(), kDevice);
  const auto& watched = dynamic_cast<HandMadeClient&>(loader.client());
  stub_.fail_allocation_after(1);
  EXPECT_THROW((void)loader.next(), c10::Error);
  loader.close();
  EXPECT_TRUE(watched.left);
  EXPECT_THROW((void)loader.next(), Exception);
}

TEST_F(LoaderWithADevice, OwnWorkWaitsForIt) {
  const TorchLoader loader(client(), kDevice);
  int done = 0;
  stub_.enqueue(kCompute, [&] { ++done; });
  OwnWork work = loader.own_work();
  EXPECT_EQ(done, 1) << "work of before would be counted";
  stub_.enqueue(kCompute, [&] { ++done; });
  work.add(CostModule::kLlm);
  EXPECT_EQ(done, 2);
  EXPECT_GE(work.seconds(CostModule::kLlm), 0);
}

TEST_F(LoaderWithADevice, WithoutOneTheyAreNotCopied) {
  TorchLoader loader(client());
  const TorchMicrobatch first = loader.next().value();
  EXPECT_TRUE(pool_.owns(first["input_ids"].data_ptr()));
  EXPECT_EQ(registered_, 0);
}

}  // namespace
}  // namespace isocost
