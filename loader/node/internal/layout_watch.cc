#include "loader/node/internal/layout_watch.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <system_error>
#include <utility>

#include "balancer/layout/better_layout.h"
#include "base/counted.h"
#include "base/executor/executor.h"
#include "base/thread_name.h"
#include "base/units.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/names/data_text.h"
#include "loader/node/internal/node_parts.h"

namespace isocost {
namespace {

constexpr std::size_t kMostLooked = 4096;  // samples of a step that the means are of
constexpr int kLowestPriority = 19;
constexpr double kLeastWhole = 0.9;  // part of a global batch that counts as a whole one

std::string memory_text(std::int64_t bytes) {
  if (bytes % kGiB == 0) return fmt::format("{}GiB", bytes / kGiB);
  return fmt::format("{}MiB", bytes / kMiB);
}

std::string training_flags(const LayoutSearchOptions& search) {
  std::string frozen;
  std::string adapters;
  const auto add = [](std::string& list, const std::string& entry) {
    list += (list.empty() ? "" : ",") + entry;
  };
  for (const auto& [name, training] :
       {std::pair("encoder", &search.encoder_training), std::pair("llm", &search.llm_training)}) {
    if (training->weights == TrainedWeights::kNone) add(frozen, name);
    if (training->weights == TrainedWeights::kAdapters) {
      add(adapters, fmt::format("{}={}", name, training->adapter_rank));
    }
  }
  std::string flags;
  if (!frozen.empty()) flags += " --freeze " + frozen;
  if (!adapters.empty()) flags += " --adapters " + adapters;
  if (search.most_recompute != Recompute::kNone) flags += " --recompute auto";
  if (search.shard_weights) flags += " --shard-weights";
  if (search.replicated_optimizer) flags += " --replicate-optimizer";
  return flags;
}

bool limits_microbatches(const PlanOptions& plan) {
  return plan.max_tokens > 0 || plan.max_memory > 0 || plan.microbatch_memory > 0;
}

// Returns whether a mean has moved.
bool moved(double now, double before) {
  return std::abs(now - before) > LayoutWatch::kMoved * before;
}

}  // namespace

LayoutWatch::LayoutWatch(const ServedLayout* layout, const NodeOptions& options, LogSink log)
    : layout_(layout), options_(options), log_(std::move(log)) {
  // Layouts are planned without experts, and without limits of a microbatch.
  if (layout_ == nullptr || layout_->has_experts() || limits_microbatches(options.plan)) return;
  const RankMemory state = state_memory(layout_->job(), layout_->layout(), layout_->pipeline({}));
  gpu_memory_ =
      gpu_memory_of(layout_->layout(), state, LayoutSearchOptions{}.usable_memory).value_or(0);
}

void LayoutWatch::observe(const CostModel& model, std::span<const Load> loads) {
  if (gpu_memory_ == 0 || loads.empty()) return;
  // Some samples may be bad, but the last step of an epoch may be much smaller than others.
  if (static_cast<double>(loads.size()) >=
      kLeastWhole * static_cast<double>(options_.plan.global_batch_size)) {
    last_.emplace_back(loads.begin(), loads.end());
    if (last_.size() > kBatches) last_.pop_front();
  }
  for (const Load& load : loads.first(std::min(loads.size(), kMostLooked))) {
    const SampleCost cost = one_rank_cost(model.predict_sample(load), load);
    since_look_.encoder_s += cost.encoder_s;
    since_look_.llm_s += cost.llm_s;
    since_look_.samples += 1;
  }
  if (++steps_ % kPeriod != 0) return;
  if (is_due()) start(model);
  since_look_ = {};
}

// Returns whether the means of the period that ends have moved since the last estimate, and no
// search runs.
bool LayoutWatch::is_due() {
  if (last_.size() < kBatches) return false;
  const auto n = static_cast<double>(since_look_.samples);
  const Means mean{since_look_.encoder_s / n, since_look_.llm_s / n, since_look_.samples};
  if (estimated_ && !moved(mean.encoder_s, estimated_->encoder_s) &&
      !moved(mean.llm_s, estimated_->llm_s)) {
    return false;
  }
  const MutexLock lock(mutex_);
  if (searching_) return false;
  searching_ = true;
  estimated_ = mean;
  return true;
}

// Starts a search with values of its own: the model goes on learning.
void LayoutWatch::start(const CostModel& model) {
  const std::size_t samples = std::ranges::min(last_, {}, &std::vector<Load>::size).size();
  Batches batches;
  for (const std::vector<Load>& loads : last_) {
    std::vector<SampleCost>& batch = batches.emplace_back();
    batch.reserve(samples);
    for (const Load& load : std::span(loads).first(samples)) {
      batch.push_back(one_rank_cost(model.predict_sample(load), load));
    }
  }
  auto job = JobModel::create(model.profile());
  if (!job) return tell_no_search(job.error().message());
  job->cluster = layout_->job().cluster;
  job->cluster.gpu_memory = gpu_memory_;
  try {
    thread_ = std::jthread(
        [this, job = *std::move(job), batches = std::move(batches)](const std::stop_token& stop) {
          try {
            search(job, batches, stop);
          } catch (const std::exception& error) {  // no thread, no memory: training goes on
            tell_no_search(error.what());
          }
        });
  } catch (const std::system_error& error) {
    tell_no_search(error.what());
  }
}

void LayoutWatch::tell_no_search(const std::string& why) {
  set({});
  log(log_, LogLevel::kWarning, "whether another layout would be faster is unknown: " + why);
}

void LayoutWatch::set(std::optional<double> gain) {
  const MutexLock lock(mutex_);
  searching_ = false;
  gain_ = gain;
}

void LayoutWatch::search(const JobModel& job, const Batches& batches, const std::stop_token& stop) {
  name_thread("isocost-layout");
  // Linux has priorities of threads, which those that they start inherit.
  setpriority(PRIO_PROCESS, 0, kLowestPriority);
  const auto executor = make_thread_executor(1, "isocost-layout");
  LayoutSearchContext context;
  context.executor = executor.get();
  context.stop = stop;
  const auto compared = compare_with_best(job, layout_->layout(), batches, context);
  if (!compared) {
    if (!stop.stop_requested()) tell_no_search(compared.error().message());
    return;
  }
  set(compared->gain());
  if (compared->gain() < kWorthTelling) return;
  const std::string profile = profile_source(job.profile);
  log(log_, LogLevel::kWarning,
      fmt::format("another layout would now be {:.0f} % faster (simulated on the last {}): {}. "
                  "Plan it with: {}{}",
                  100 * compared->gain(), counted(batches.size(), "step"),
                  compared->best.layout.to_string(),
                  plan_command(search_like(job, layout_->layout()), profile.empty()), profile));
}

// Returns where the command finds the profile, if that is no file that the node has read: the
// command would measure the model, or plan with the built-in profile.
std::string LayoutWatch::profile_source(const CostProfile& profile) const {
  const CostModelOptions& model = options_.cost_model;
  const bool adopted = profile.fingerprint() != model.profile->fingerprint();
  const bool built_in = model_directory(options_.decode.recipe).empty() &&
                        profile.fingerprint() == CostProfile::stated_default().fingerprint();
  if (!adopted && (built_in || !model.profile_file.empty())) return "";
  return fmt::format("; {}the metrics endpoint{} returns its profile as /profile.json",
                     adopted ? "the model has changed, and " : "",
                     options_.service.metrics.empty() ? " (option metrics)" : "");
}

// Returns the command that searches for such a layout in full.
std::string LayoutWatch::plan_command(const LayoutSearchOptions& search, bool has_profile) const {
  std::string command = fmt::format(
      "isocost plan --gpus {} --gpu-memory {} --data {}{} --global-batch-size {} --output "
      "better_layout.json",
      search.gpus, memory_text(gpu_memory_),
      data_arguments(without_secrets(options_.data), dataset_options_of(options_.decode)),
      size_flags(options_.decode.recipe), options_.plan.global_batch_size);
  const std::string profile =
      has_profile ? options_.cost_model.profile_file.string() : std::string("profile.json");
  if (!profile.empty()) command += " --profile " + for_shell(profile);
  const std::string& interconnect = layout_->layout().interconnect;
  if (!interconnect.empty()) command += " --interconnect " + for_shell(interconnect);
  if (search.schedule != Schedule::k1F1B) {
    command += fmt::format(" --schedule {}", schedule_name(search.schedule));
  }
  command += training_flags(search);
  if (search.framework != Framework::kAny) {
    command += fmt::format(" --emit {}", framework_name(search.framework));
  }
  return command;
}

std::optional<double> LayoutWatch::gain() const {
  const MutexLock lock(mutex_);
  return gain_;
}

}  // namespace isocost
