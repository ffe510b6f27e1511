#pragma once

#include <hwy/targets.h>

#include <cstdint>
#include <vector>

#include "decode/resize/simd_target.h"

namespace isocost {

/// Returns the kernels for the fastest set of vector instructions that this processor has. They are
/// chosen at the first call. `kChoose` returns HWY_DYNAMIC_DISPATCH's kernels.
template <auto kChoose>
const auto& fastest_target() {
  static const auto chosen = kChoose();
  return chosen;
}

/// Returns the kernels for every set of vector instructions that this processor has and the file
/// is compiled for. `choose` returns HWY_DYNAMIC_DISPATCH's kernels.
template <typename Kernels>
std::vector<SimdTarget<Kernels>> simd_targets(Kernels (*choose)()) {
  std::vector<SimdTarget<Kernels>> targets;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    targets.push_back({hwy::TargetName(target), choose()});
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return targets;
}

}  // namespace isocost
