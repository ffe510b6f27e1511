#include "loader/node/internal/reprofiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/utf8.h"
#include "loader/node/internal/joined_profile.h"

namespace isocost {
namespace {

// Most steps that answers may take. Another drift within them is no reason to ask again, because
// all modules are measured together.
constexpr std::uint32_t kStepsForAnswers = 64;

constexpr std::size_t kMostWords = 1000;  // characters of a trainer's reason in the log

constexpr const char* kKept = "; the node keeps the present profile";

}  // namespace

void Reprofiling::receive(ProfileReceived received) {
  const MutexLock lock(mutex_);
  received_[received.rank] = std::move(received.update);
}

Reprofiling::Counts Reprofiling::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

void Reprofiling::spend(double seconds, bool complete) {
  budget_.spend(seconds, complete);
  const MutexLock lock(mutex_);
  counts_.seconds += seconds;
}

std::string Reprofiling::name_of(std::int32_t rank) const {
  if (!has_stages()) return "rank " + std::to_string(rank);
  return "the trainer at " + options_.layout->receivers()[static_cast<std::size_t>(rank)].name;
}

double Reprofiling::trained_s() {
  const MonotonicTime now = options_.clock();
  if (!started_) started_ = now;
  return seconds_between(*started_, now);
}

void Reprofiling::take(std::int32_t rank, ProfileUpdate update) {
  // Without stages, each rank may answer, and the first one's profile is that of all.
  if (!has_stages() && rank != 0) return;
  const bool late = update.asked.epoch != asked_at_.epoch || update.asked.step != asked_at_.step;
  if (!asked_.contains(rank) || late) {
    log(log_, LogLevel::kWarning,
        "model profile of " + name_of(rank) +
            " ignored: the node did not ask for it now, and keeps the present profile");
    return;
  }
  if (update.took_s == 0 && update.failure.empty()) {
    update.took_s = granted_s_;  // the trainer does not say
  } else {                       // a longer time is wrong, and would spend the budget for ever
    update.took_s = std::min(update.took_s, trained_s() - asked_at_s_);
  }
  answers_[rank] = std::move(update);
}

void Reprofiling::adopt_received() {
  Answers received;
  {
    const MutexLock lock(mutex_);
    received.swap(received_);
  }
  for (auto& [rank, update] : received) take(rank, std::move(update));
  if (asked_.empty()) return;
  if (answers_.size() == asked_.size()) {
    decide();
  } else if (steps_since_asked_ >= kStepsForAnswers) {
    const auto missing = std::ranges::find_if(
        asked_, [this](std::int32_t rank) { return !answers_.contains(rank); });
    give_up(fmt::format("no answer of {} within {} steps", name_of(*missing), kStepsForAnswers));
  }
}

// Spends what measuring took. Trainers measure at the same time, so the slowest one counts.
void Reprofiling::decide() {
  double took_s = 0;
  for (const auto& [rank, answer] : answers_) took_s = std::max(took_s, answer.took_s);
  const Status answered = check_answers();
  spend(took_s, answered.has_value());
  if (!answered) return give_up(answered.error().message());
  if (took_s > granted_s_) {
    ask_again_ = true;
    const auto slowest = std::ranges::max_element(
        answers_, {}, [](const auto& answer) { return answer.second.took_s; });
    return give_up(fmt::format(
        "{} took {:.1f} s to measure, and reprofile_budget = {} of training had accumulated {:.1f} "
        "s: the node asks again in {:.0f} s; measure fewer loads, or raise reprofile_budget",
        name_of(slowest->first), took_s, budget_.share(), granted_s_, budget_.wait_s(trained_s())));
  }
  if (const Status adopted = adopt(); !adopted) return give_up(adopted.error().message());
  asked_.clear();
  answers_.clear();
  steps_since_asked_ = 0;
  drifts_asked_ = 0;  // the new model counts its drifts from 0
}

void Reprofiling::give_up(const std::string& why) {
  // A trainer that did not answer may have measured as long as it was allowed to.
  if (answers_.size() < asked_.size()) spend(granted_s_, false);
  {
    const MutexLock lock(mutex_);
    counts_.kept += 1;
  }
  log(log_, LogLevel::kWarning, "model profile: " + why + kKept);
  asked_.clear();
  answers_.clear();
  steps_since_asked_ = 0;
}

Status Reprofiling::check_answers() const {
  std::size_t failed = 0;
  std::string first;
  for (const auto& [rank, answer] : answers_) {
    if (answer.failure.empty()) continue;
    if (failed++ > 0) continue;
    const std::string_view why = std::string_view(answer.failure).substr(0, kMostWords);
    first = name_of(rank) + ": " + printable_utf8(why);
  }
  if (failed == 0) return {};
  if (failed > 1) first += fmt::format(" (and {} more)", counted(failed - 1, "trainer"));
  return Error(ErrorCode::kInvalidArgument, std::move(first));
}

Result<CostProfile> Reprofiling::joined() const {
  std::vector<ProfilePart> parts;
  for (const auto& [rank, answer] : answers_) {
    auto layers = LayerProfile::parse(answer.profile);
    if (!layers) {
      const bool whole = CostProfile::parse(answer.profile).has_value();
      return Error(ErrorCode::kInvalidArgument,
                   name_of(rank) + ": " +
                       (whole ? "it is a whole model's profile: return that of the stage's layers "
                                "(isocost.profile_layers)"
                              : layers.error().message()));
    }
    const auto receiver = static_cast<std::size_t>(rank);
    parts.push_back({&options_.layout->receivers()[receiver], *std::move(layers)});
  }
  std::array<bool, kModules> needed{};
  const ModuleSeconds errors = model_.progress().prediction_error_ratio;
  for (std::size_t m = 0; m < kModules; ++m) needed.at(m) = !std::isnan(errors.at(m));
  return join_parts(model_.profile(), parts, needed);
}

// Warns where a module is frozen or trained, and the layout says otherwise: plans follow what was
// measured, but the layout was chosen for something else.
void Reprofiling::compare_training(const CostProfile& profile) const {
  const PipelineModel planned = options_.layout->pipeline({});
  for (const CostModule module : {CostModule::kVision, CostModule::kAudio, CostModule::kLlm}) {
    const auto forward = profile.modules.at(static_cast<std::size_t>(module)).forward_share;
    const ModuleStages& stages = module == CostModule::kLlm ? planned.llm : planned.encoder;
    const bool is_trained = forward && *forward < 1;
    if (!forward || is_trained == stages.passes.has_backward()) continue;
    log(log_, LogLevel::kWarning,
        fmt::format("module {} {} a backward pass, other than the layout says: plans follow what "
                    "was measured, and `isocost plan` finds a layout for it",
                    module_name(module), is_trained ? "has" : "has not"));
  }
}

Status Reprofiling::adopt() {
  std::string name = "model profile of rank 0";
  std::string profile = answers_.begin()->second.profile;
  if (has_stages()) {
    name = "model profile of the layers of " + counted(answers_.size(), "receiver");
    ISOCOST_ASSIGN(const CostProfile measured, joined());
    profile = measured.to_json();
    compare_training(measured);
  }
  ISOCOST_TRY(model_.adopt(std::move(profile)));
  log(log_, LogLevel::kInfo,
      name + " adopted: the node plans with it, and correction starts from it");
  return {};
}

bool Reprofiling::within_budget() {
  const double trained = trained_s();
  if (budget_.accumulated_s(trained) >= budget_.needed_s()) return true;
  if (std::exchange(wait_noted_, true)) return false;
  log(log_, LogLevel::kInfo,
      fmt::format("a new model profile would help, and waits for reprofile_budget = {}: measuring "
                  "takes {:.1f} s, which {:.0f} s more of training allow",
                  budget_.share(), budget_.needed_s(), budget_.wait_s(trained)));
  return false;
}

void Reprofiling::begin_job() {
  if (asked_.empty()) return;
  ask_again_ = true;
  asked_.clear();
  answers_.clear();
  steps_since_asked_ = 0;
}

double Reprofiling::ask(const Position& step) {
  const double trained = trained_s();
  if (steps_since_asked_ > 0) {
    ++steps_since_asked_;
    return 0;
  }
  const std::uint64_t drifts = model_.progress().correction.drifts;
  if (drifts <= drifts_asked_ && !ask_again_) return 0;
  if (!options_.allowed) {
    drifts_asked_ = std::numeric_limits<std::uint64_t>::max();
    log(log_, LogLevel::kWarning,
        "the model profile is out of date: correction compensates for it, and trainers measure it "
        "again with reprofile= of isocost.DataLoader, or --reprofile on");
    return 0;
  }
  if (!within_budget()) return 0;
  drifts_asked_ = std::max(drifts, drifts_asked_);
  ask_again_ = wait_noted_ = false;
  steps_since_asked_ = 1;
  const std::size_t answers = has_stages() ? options_.layout->receivers().size() : 1;
  for (std::size_t i = 0; i < answers; ++i) asked_.insert(static_cast<std::int32_t>(i));
  asked_at_ = step;
  asked_at_s_ = trained;
  granted_s_ = budget_.granted_s(trained);
  log(log_, LogLevel::kInfo,
      has_stages() ? "asking " + counted(asked_.size(), "receiver") + " to measure their layers"
                   : "asking rank 0 to measure a new model profile");
  return ReprofileBudget::kTold * granted_s_;
}

}  // namespace isocost
