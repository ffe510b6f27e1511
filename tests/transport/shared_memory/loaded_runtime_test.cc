// A CUDA runtime that a library of the process has loaded for itself, under a name of its own.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "transport/shared_memory/internal/host_registration.h"

namespace isocost {
namespace {

TEST(LoadedRuntime, IsFoundUnderAnyName) {
  std::vector<std::byte> memory(10'000);
  EXPECT_EQ(HostRegistration::of(memory).error().code(), ErrorCode::kNotFound);

  void* const driver = dlopen(ISOCOST_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver, nullptr) << dlerror();
  EXPECT_EQ(HostRegistration::of(memory).error().code(), ErrorCode::kUnsupported);

  void* const runtime = dlopen(ISOCOST_FAKE_CUDART, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(runtime, nullptr) << dlerror();
  const auto* registered = static_cast<const int*>(dlsym(runtime, "isocost_registered"));
  ASSERT_NE(registered, nullptr);
  std::optional<HostRegistration> registration = HostRegistration::of(memory).value();
  EXPECT_EQ(*registered, 1);
  registration.reset();
  EXPECT_EQ(*registered, 0);

  registration = HostRegistration::of(memory).value();
  EXPECT_EQ(dlclose(runtime), 0);
  registration.reset();  // as at the end of a process
  EXPECT_EQ(dlclose(driver), 0);
}

}  // namespace
}  // namespace isocost
