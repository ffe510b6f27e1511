#include "transport/protocol/internal/loop_progress.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "transport/wire/position_text.h"

namespace isocost {
namespace {

// Microbatches, or steps, that may be reported on after later ones were taken.
constexpr std::size_t kRemembered = 64;

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Returns whether this receiver computes anything: a stage may have nothing to do for samples that
// have a load.
bool has_work(const MicrobatchHeader& header) {
  return std::ranges::any_of(header.predicted_seconds, [](double s) { return s > 0; });
}

}  // namespace

LoopProgress::LoopProgress(const RankOptions& options)
    : most_steps_ahead_(options.most_steps_ahead), prepares_ahead_(options.prepares_ahead) {}

void LoopProgress::begin_use(const Position& position) {
  const bool same_step = used_ && used_->epoch == position.epoch && used_->step == position.step;
  if (!same_step) ++steps_since_told_;
  in_use_ = used_ = position;
}

void LoopProgress::end_use(RankActions& actions) {
  std::optional<Position> done = std::exchange(in_use_, std::nullopt);
  if (says_what_is_trained()) done = trained_;
  if (done) acknowledge_up_to(*done, actions);
}

void LoopProgress::end_last_use(RankActions& actions) {
  end_use(actions);
  if (took_last_end_ && used_ && used_ == taken_) acknowledge_up_to(*used_, actions);
}

void LoopProgress::acknowledge_up_to(const Position& position, RankActions& actions) {
  if (acknowledged_ && position <= *acknowledged_) return;
  acknowledged_ = position;
  acknowledge_again(actions);
}

void LoopProgress::acknowledge_again(RankActions& actions) const {
  if (acknowledged_) actions.emplace_back(SendMessage{Acknowledgement{*acknowledged_}});
}

// Returns whether the loop says which microbatches are trained. One that has stopped to say it is
// as one that never did, so that the node can drop steps.
bool LoopProgress::says_what_is_trained() const {
  return trained_ && steps_since_told_ <= most_steps_ahead_;
}

void LoopProgress::take(const MicrobatchHeader& header) {
  taken_ = header.position;
  if (header.profile_budget_s > 0) asked_for_profile_ = header.position;
  if (!header.seconds_wanted) note_unwanted(header);
  if (has_work(header)) return;
  without_work_.push_back(header.position);
  if (without_work_.size() > kRemembered) without_work_.pop_front();
}

void LoopProgress::note_unwanted(const MicrobatchHeader& header) {
  Position last = header.position;
  last.microbatch = header.microbatches - 1;
  if (!unwanted_.empty() && unwanted_.back() == last) return;
  unwanted_.push_back(last);
  if (unwanted_.size() > kRemembered) unwanted_.pop_front();
}

Status LoopProgress::train(const Position& position) {
  ISOCOST_TRY(check_taken("trained", position));
  note_trained(position);
  return {};
}

void LoopProgress::note_trained(const Position& position) {
  steps_since_told_ = 0;
  if (trained_ && position <= *trained_) return;
  trained_before_ = std::exchange(trained_, position);
}

void LoopProgress::revoke(const Position& position) {
  if (in_use_ == position) in_use_.reset();
  if (trained_ == position) trained_ = trained_before_;
}

Status LoopProgress::report(Report report, Time now, RankActions& actions) {
  ISOCOST_TRY(check_taken("report", report.position));
  if (is_wanted(report.position)) {
    ISOCOST_TRY(check_measured(report));
    // A caller that says how long measuring took counts its reports, too.
    if (report.measuring_s == kNotMeasured) report.measuring_s = seconds_of(reporting_);
    reporting_since_ = now;
    send(report, actions);
  } else if (std::ranges::find(unwanted_, report.position) != unwanted_.end()) {
    send(Report{.position = report.position}, actions);
  }
  if (!prepares_ahead_) note_trained(report.position);
  return {};
}

void LoopProgress::end_report(Time now) {
  if (!reporting_since_) return;
  reporting_ = now - *reporting_since_;
  reporting_since_.reset();
}

// Returns whether the node asks for the seconds of the microbatch's step.
bool LoopProgress::is_wanted(const Position& position) const {
  return std::ranges::none_of(unwanted_, [&position](const Position& last) {
    return last.epoch == position.epoch && last.step == position.step;
  });
}

void LoopProgress::send(Report report, RankActions& actions) {
  report.data_wait_s = seconds_of(std::exchange(data_wait_, {}));
  actions.emplace_back(SendMessage{report});
}

Status LoopProgress::check_taken(const char* what, const Position& position) const {
  if (taken_ && position <= *taken_) return {};
  return Error(ErrorCode::kInvalidArgument, std::string(what) + ": " + text_of(position) +
                                                " was not received yet; the last is " +
                                                (taken_ ? text_of(*taken_) : "none") +
                                                ". Report a microbatch that next() returned");
}

Status LoopProgress::check_measured(const Report& report) const {
  const bool measured =
      std::ranges::any_of(report.seconds, [](double of_module) { return of_module > 0; });
  if (measured || std::ranges::find(without_work_, report.position) != without_work_.end()) {
    return {};
  }
  return Error(
      ErrorCode::kInvalidArgument,
      "report: nothing was measured of " + text_of(report.position) +
          ", which has work. Give the seconds of a module (OwnWork::add after its passes)");
}

}  // namespace isocost
