// Highway compiles this file once for each set of vector instructions, and chooses among them at
// run time.

#include "trainer_adapter/internal/written_once.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainer_adapter/internal/written_once.cc"
#include <hwy/foreach_target.h>  // NOLINT: before highway.h
#include <hwy/highway.h>

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace isocost::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;  // at most a line of the cache

void write_past_caches(const float* from, std::size_t values, float* to) {
  const Floats vector;
  const std::size_t lanes = hn::Lanes(vector);
  const std::size_t odd = reinterpret_cast<std::uintptr_t>(to) / sizeof(float) % lanes;
  std::size_t done = odd == 0 ? 0 : std::min(values, lanes - odd);
  std::copy_n(from, done, to);
  for (; done + lanes <= values; done += lanes) {
    hn::Stream(hn::LoadU(vector, from + done), vector, to + done);
  }
  std::copy_n(from + done, values - done, to + done);
}

}  // namespace
}  // namespace isocost::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isocost {
namespace {

HWY_EXPORT(write_past_caches);

}  // namespace

// Rows of patches came 2.1 times as fast on a Xeon, and on an EPYC the tensors of a model 0.84
// times (README.md).
bool WrittenOnce::pays_past_caches(std::size_t bytes) {
  constexpr std::size_t kLarge = std::size_t{4} << 20;
#if defined(__x86_64__)
  return bytes >= kLarge && __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

WrittenOnce::~WrittenOnce() {
  if (past_caches_) hwy::FlushStream();
}

void WrittenOnce::write(const float* from, std::size_t values, float* to) const {
  if (past_caches_) {
    HWY_DYNAMIC_DISPATCH(write_past_caches)(from, values, to);
  } else {
    std::copy_n(from, values, to);
  }
}

}  // namespace isocost
#endif
