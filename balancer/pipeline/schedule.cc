#include "balancer/pipeline/schedule.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "balancer/pipeline/internal/narrow.h"

namespace isocost {
namespace {

constexpr std::array<std::pair<Schedule, std::string_view>, 4> kNames = {{
    {Schedule::kGpipe, "gpipe"},
    {Schedule::k1F1B, "1f1b"},
    {Schedule::kInterleaved1F1B, "interleaved"},
    {Schedule::kZbH1, "zb-h1"},
}};

// Returns the k-th forward pass of a stage whose chunks interleave: groups of one microbatch per
// stage run through all chunks before the next group starts (Narayanan et al., SC 2021).
Pass interleaved_pass(std::size_t k, std::size_t stages, std::size_t chunks, PassKind kind) {
  const std::size_t group = stages * chunks;
  const std::size_t chunk = k % group / stages;
  return {.kind = kind,
          .slot = narrow(k / group * stages + k % stages),
          .chunk = narrow(kind == PassKind::kForward ? chunk : chunks - 1 - chunk)};
}

std::vector<Pass> interleaved_program(std::size_t stages, std::size_t stage, std::size_t chunks,
                                      std::size_t microbatches) {
  const std::size_t passes = microbatches * chunks;
  const std::size_t fill =
      chunks == 1 ? stages - stage - 1 : (stages - stage - 1) * 2 + (chunks - 1) * stages;
  std::vector<Pass> program;
  program.reserve(2 * passes);
  std::size_t forward = 0;
  const auto run_forward = [&] {
    program.push_back(interleaved_pass(forward++, stages, chunks, PassKind::kForward));
  };
  while (forward < std::min(fill, passes)) run_forward();
  for (std::size_t backward = 0; backward < passes; ++backward) {
    if (forward < passes) run_forward();
    program.push_back(interleaved_pass(backward, stages, chunks, PassKind::kBackward));
  }
  return program;
}

Status check(Schedule schedule, std::size_t stages, std::size_t stage, std::size_t chunks,
             std::size_t microbatches) {
  if (stages == 0 || chunks == 0 || microbatches == 0 || stage >= stages) {
    return Error(ErrorCode::kInvalidArgument,
                 "a pipeline needs at least one stage, chunk and microbatch");
  }
  if (schedule != Schedule::kInterleaved1F1B && chunks > 1) {
    return Error(ErrorCode::kInvalidArgument, "schedule " + std::string(schedule_name(schedule)) +
                                                  " runs one chunk per stage, not " +
                                                  std::to_string(chunks));
  }
  if (chunks > 1 && microbatches % stages != 0) {
    return Error(ErrorCode::kInvalidArgument,
                 "the interleaved schedule needs microbatches (" + std::to_string(microbatches) +
                     ") that are a multiple of the stages (" + std::to_string(stages) + ")");
  }
  return {};
}

}  // namespace

std::string_view schedule_name(Schedule schedule) {
  for (const auto& [value, name] : kNames) {
    if (value == schedule) return name;
  }
  return "?";
}

std::optional<Schedule> schedule_from_name(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

Result<std::vector<Pass>> stage_program(Schedule schedule, std::size_t stages, std::size_t stage,
                                        std::size_t chunks, std::size_t microbatches,
                                        std::size_t held_back) {
  ISOCOST_TRY(check(schedule, stages, stage, chunks, microbatches));
  if (schedule == Schedule::kInterleaved1F1B) {
    return interleaved_program(stages, stage, chunks, microbatches);
  }
  std::vector<std::uint32_t> before(microbatches);
  for (std::size_t m = 0; m < microbatches; ++m) {
    const std::size_t ahead = schedule == Schedule::kGpipe ? microbatches : m + stages - stage;
    before[m] = narrow(std::min(ahead, microbatches));
  }
  return feeding_program(schedule, before, held_back);
}

Result<std::vector<std::uint32_t>> taken_before(Schedule schedule, std::size_t stages,
                                                std::size_t chunks, std::size_t microbatches) {
  ISOCOST_ASSIGN(const auto program,
                 stage_program(schedule, stages, 0, chunks, microbatches, /*held_back=*/0));
  std::vector<std::uint32_t> before(microbatches);
  std::uint32_t taken = 0;
  for (const Pass& pass : program) {
    if (pass.chunk != 0) continue;
    if (pass.kind == PassKind::kForward) ++taken;
    if (pass.kind == PassKind::kBackward) before[pass.slot] = taken;
  }
  return before;
}

std::vector<std::uint32_t> forwards_before(const std::vector<std::uint32_t>& taken,
                                           std::span<const FedMicrobatches> slots,
                                           std::size_t lead) {
  std::vector<std::uint32_t> before(slots.size());
  std::uint32_t forward = 0;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const std::size_t reach = taken[slots[s].last] + lead;
    while (forward < slots.size() && slots[forward].first < reach) ++forward;
    forward = std::max(forward, narrow(s + 1));
    before[s] = forward;
  }
  return before;
}

std::vector<Pass> feeding_program(Schedule schedule,
                                  const std::vector<std::uint32_t>& forwards_before,
                                  std::size_t held_back) {
  const bool split = schedule == Schedule::kZbH1;
  const std::size_t slots = forwards_before.size();
  std::vector<Pass> program;
  program.reserve((split ? 3 : 2) * slots);
  std::uint32_t forward = 0;
  std::uint32_t weights = 0;
  const auto run_weights = [&] {
    program.push_back({.kind = PassKind::kWeights, .slot = weights++});
  };
  for (std::uint32_t backward = 0; backward < slots; ++backward) {
    while (forward < forwards_before[backward]) program.push_back({.slot = forward++});
    program.push_back({.kind = PassKind::kBackward, .slot = backward});
    if (split && backward >= held_back) run_weights();
  }
  while (split && weights < slots) run_weights();
  return program;
}

}  // namespace isocost
