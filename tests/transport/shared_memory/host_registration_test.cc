// Registration of shared memory with a CUDA runtime: this program has one of its own, which records
// what is asked of it.

#include "transport/shared_memory/internal/host_registration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/units.h"
#include "tests/support/loopback_options.h"
#include "tests/trainer_adapter/scripted_node.h"
#include "trainer_adapter/client.h"

namespace {

struct Runtime {
  isocost::Mutex mutex;
  std::map<void*, std::size_t> registered ISOCOST_GUARDED_BY(mutex);
  int registrations ISOCOST_GUARDED_BY(mutex) = 0;
  int faults ISOCOST_GUARDED_BY(mutex) = 0;
  int refusal ISOCOST_GUARDED_BY(mutex) = 0;  // the error that it registers nothing with
  int last_error ISOCOST_GUARDED_BY(mutex) = 0;
  std::set<int> used ISOCOST_GUARDED_BY(mutex);  // devices with a context
};

thread_local int current_device = 0;

Runtime& runtime() {
  static Runtime one;
  return one;
}

bool is_mapped(void* address, std::size_t size) {
  constexpr std::size_t kPage = 4096;
  const std::size_t before = std::bit_cast<std::uintptr_t>(address) % kPage;
  std::vector<unsigned char> there((before + size + kPage - 1) / kPage);
  return mincore(static_cast<std::byte*>(address) - before, before + size, there.data()) == 0;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the runtime's names
extern "C" int cudaHostRegister(void* address, std::size_t size, unsigned flags) {
  const isocost::MutexLock lock(runtime().mutex);
  runtime().used.insert(current_device);
  if (runtime().refusal != 0) return runtime().last_error = runtime().refusal;
  const bool is_new = runtime().registered.emplace(address, size).second;
  if (!is_new || flags != 1 || !is_mapped(address, size)) runtime().faults += 1;
  runtime().registrations += 1;
  return 0;
}

extern "C" int cudaGetLastError() {
  const isocost::MutexLock lock(runtime().mutex);
  return std::exchange(runtime().last_error, 0);
}

extern "C" const char* cudaGetErrorString(int error) {
  if (error == 100) return "no CUDA-capable device is detected";
  return error == 1 ? "invalid argument" : "unknown error";
}

extern "C" int cudaGetDevice(int* device) {
  *device = current_device;
  return 0;
}

// Makes a context, like CUDA 12 does.
extern "C" int cudaSetDevice(int device) {
  const isocost::MutexLock lock(runtime().mutex);
  runtime().used.insert(device);
  current_device = device;
  return 0;
}

extern "C" int cudaHostUnregister(void* address) {
  const isocost::MutexLock lock(runtime().mutex);
  runtime().used.insert(current_device);
  const auto found = runtime().registered.find(address);
  if (found == runtime().registered.end() || !is_mapped(address, found->second)) {
    runtime().faults += 1;
    return 1;
  }
  runtime().registered.erase(found);
  return 0;
}
// NOLINTEND(readability-identifier-naming)

namespace isocost {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSampleBytes = 50'000;

class HostRegistrationTest : public testing::Test {
 protected:
  void SetUp() override {
    const MutexLock lock(runtime().mutex);
    ASSERT_TRUE(runtime().registered.empty());
    runtime().registrations = 0;
    runtime().faults = 0;
    runtime().refusal = 0;
    runtime().used.clear();
  }
  void TearDown() override {
    const MutexLock lock(runtime().mutex);
    EXPECT_TRUE(runtime().registered.empty()) << "nothing stays registered";
    EXPECT_EQ(runtime().last_error, 0) << "no error is left for others to find";
    EXPECT_EQ(runtime().faults, 0) << "memory is registered once, and while it is mapped";
  }
  static int registrations() {
    const MutexLock lock(runtime().mutex);
    return runtime().registrations;
  }
  static std::set<int> used() {
    const MutexLock lock(runtime().mutex);
    return runtime().used;
  }
  static std::unique_ptr<Client> connect(const ScriptedNode& node) {
    return Client::connect(loopback_client(node.endpoint())).value();
  }
};

TEST_F(HostRegistrationTest, EndsWithItsObject) {
  std::vector<std::byte> memory(10'000);
  {
    std::optional<HostRegistration> first = HostRegistration::of(memory).value();
    const HostRegistration moved = *std::move(first);
    first.reset();
    const MutexLock lock(runtime().mutex);
    EXPECT_EQ(runtime().registered.size(), 1U);
  }
  EXPECT_EQ(registrations(), 1);
}

// A rank uses only its own device, whichever thread drops a block.
TEST_F(HostRegistrationTest, EndsOnItsDevice) {
  std::vector<std::byte> memory(10'000);
  const auto registered_on = [&](int device) {
    std::optional<HostRegistration> made;
    std::jthread([&] {
      cudaSetDevice(device);
      made = HostRegistration::of(memory).value();
    }).join();
    return made;
  };
  registered_on(3).reset();
  EXPECT_EQ(used(), std::set<int>{3}) << "not the device of a thread that has set none";
  EXPECT_EQ(current_device, 0);
  std::jthread([&] {
    cudaSetDevice(5);
    registered_on(3).reset();
    EXPECT_EQ(current_device, 5);
  }).join();
  EXPECT_EQ(used(), (std::set<int>{3, 5}));
}

TEST_F(HostRegistrationTest, ABlockIsRegisteredOnceForAllMicrobatches) {
  MemoryBudget budget(64 * kMiB);
  ScriptedNode node(loopback_server(&budget), 30, kSampleBytes);
  const auto client = connect(node);
  std::optional<Microbatch> kept;
  for (int step = 0; step < 30; ++step) {
    Microbatch microbatch = client->next({}).value().value();
    EXPECT_TRUE(microbatch.pin());
    EXPECT_TRUE(microbatch.pin());
    if (step == 0) kept = std::move(microbatch);
  }
  EXPECT_GE(registrations(), 2);
  EXPECT_LE(registrations(), 8) << "as many as there are blocks";
}

TEST_F(HostRegistrationTest, WithoutSharedMemoryThereIsNothingToRegister) {
  ScriptedNode node(loopback_server(nullptr), 1, kSampleBytes);
  EXPECT_FALSE(connect(node)->next({}).value()->pin);
}

// A microbatch in shared memory, of a trainer whose CUDA runtime refuses memory with `error`.
class Refused {
 public:
  explicit Refused(int error) : node_(loopback_server(&budget_), 1, kSampleBytes) {
    {
      const MutexLock lock(runtime().mutex);
      runtime().refusal = error;
    }
    ClientOptions options = loopback_client(node_.endpoint());
    options.log = [this](LogLevel, std::string_view text) { told_.set_value(std::string(text)); };
    client_ = Client::connect(options).value();
    microbatch = client_->next({}).value().value();
  }
  // Returns the line of the log, of which there may be one.
  std::string line() {
    std::future<std::string> line = told_.get_future();
    if (line.wait_for(std::chrono::seconds(10)) != std::future_status::ready) return {};
    return line.get();
  }

 private:
  MemoryBudget budget_{64 * kMiB};
  ScriptedNode node_;
  std::promise<std::string> told_;
  std::unique_ptr<Client> client_;

 public:
  std::optional<Microbatch> microbatch;
};

// And the log says why, once.
TEST_F(HostRegistrationTest, ARuntimeThatRefusesIsNotAskedAgain) {
  Refused refused(1);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit low{std::min<rlim_t>(before.rlim_cur, 4096), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &low), 0);
  EXPECT_FALSE(refused.microbatch->pin());
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
  EXPECT_THAT(refused.line(),
              AllOf(HasSubstr("cudaHostRegister failed with error 1 (invalid argument) for"),
                    HasSubstr("ulimit -l unlimited"), HasSubstr("--ulimit memlock=-1")));
  {
    const MutexLock lock(runtime().mutex);
    runtime().refusal = 0;
  }
  EXPECT_FALSE(refused.microbatch->pin());
}

// A container that has the driver's libraries, but was given no device.
TEST_F(HostRegistrationTest, ADriverWithoutADeviceIsNamedAndTheMicrobatchIsUsable) {
  Refused refused(100);
  EXPECT_FALSE(refused.microbatch->pin());
  EXPECT_THAT(refused.line(), HasSubstr("error 100 (no CUDA-capable device is detected)"));
  EXPECT_FALSE(refused.microbatch->tensors.empty());
}

}  // namespace
}  // namespace isocost
