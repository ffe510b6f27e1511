#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/load.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Measures a rank's own work on a microbatch, by module, for `report`: forward and backward
/// passes, without the time in which the rank waits for other ranks.
///
///   OwnWork work = loader.own_work(microbatch);  // waits for the loader's device
///   const torch::Tensor features = vision->forward(microbatch["vision_patches"]);
///   work.add(CostModule::kVision);
///   token_loss(llm->forward(microbatch["input_ids"], features), microbatch).backward();
///   work.add(CostModule::kLlm);
///   all_reduce(gradients);
///   work.leave_out();
///   loader.report(microbatch, work);
///
/// In a step that the node does not ask to be measured (MicrobatchHeader::seconds_wanted), the
/// loader returns OwnWork::none(), which waits for nothing. The clock is the host's. On a device
/// the work is done later than it is queued: give a function that waits for it, as
/// TorchLoader::own_work does. Single-thread.
class OwnWork {
 public:
  /// `wait` blocks until the device has done what was queued. It is called here and by `add` and
  /// `leave_out`, before they take the time. Null: there is no device.
  explicit OwnWork(MonotonicClock clock = steady_clock(), std::function<void()> wait = nullptr)
      : clock_(std::move(clock)), wait_(std::move(wait)), last_(now()) {}

  /// Returns one that measures nothing: `add` and `leave_out` do nothing.
  static OwnWork none() { return OwnWork(nullptr, nullptr, {}); }
  /// Returns whether it measures anything.
  bool measures() const { return clock_ != nullptr; }

  /// Adds the time since the last call, or since the start, to the module's seconds.
  void add(CostModule module);
  /// Leaves out the time since the last call, or since the start: communication.
  void leave_out();

  /// Returns the seconds of each module, kNotMeasured if nothing was added.
  const std::array<double, kModules>& seconds() const { return seconds_; }
  /// Returns the seconds of one module, kNotMeasured if nothing was added.
  double seconds(CostModule module) const { return seconds_.at(static_cast<std::size_t>(module)); }
  /// Returns the seconds that were left out.
  double communication_s() const { return communication_s_; }

 private:
  OwnWork(MonotonicClock clock, std::function<void()> wait, MonotonicTime last)
      : clock_(std::move(clock)), wait_(std::move(wait)), last_(last) {}

  MonotonicTime now() const;
  double since_last();

  MonotonicClock clock_;  // null: nothing is measured
  std::function<void()> wait_;
  MonotonicTime last_;
  std::array<double, kModules> seconds_{kNotMeasured, kNotMeasured, kNotMeasured};
  double communication_s_ = 0;
};

}  // namespace isocost
