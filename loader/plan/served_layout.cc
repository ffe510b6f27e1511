#include "loader/plan/served_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "balancer/layout/layout.h"
#include "base/counted.h"
#include "costmodel/sample_cost.h"

namespace isocost {
namespace {

// Checks that an option agrees with the layout. `has` says how many the layout has, with the noun.
Status agree(const char* field, std::int64_t given, std::size_t wanted, const std::string& has,
             const PlanOptions& options) {
  if (given == static_cast<std::int64_t>(wanted)) return {};
  return Error(ErrorCode::kInvalidArgument, std::string(field) + " = " + std::to_string(given) +
                                                ": layout " + options.layout_file.string() +
                                                " has " + has + ": leave " + field +
                                                " out, or the layout");
}

Status check(const PlanOptions& options, const Layout& layout) {
  ISOCOST_TRY(agree("ranks", options.ranks, layout.llm.data,
                    counted(layout.llm.data, "LLM replica"), options));
  return agree("microbatches", options.microbatches, layout.microbatches,
               counted(layout.microbatches, "microbatch") + " per replica", options);
}

bool has_stages(const Layout& layout) {
  return layout.llm.pipeline > 1 || layout.encoder_place == EncoderPlacement::kOwnRanks;
}

SampleCost mean_price(const CostProfile& profile, std::span<const Load> loads) {
  SampleCost sum;
  const SamplePrices prices(profile);
  for (const Load& load : loads) sum += prices.of(load);
  const auto n = static_cast<double>(std::max<std::size_t>(loads.size(), 1));
  return {sum.encoder_s / n, sum.llm_s / n, sum.encoder_units / n, sum.llm_units / n};
}

// Returns a message if a chunk's activations exceed the cap; a cap of 0 means none.
std::optional<std::string> beyond(std::span<const StagePass> passes, std::int64_t cap,
                                  const char* module) {
  for (std::size_t chunk = 0; cap > 0 && chunk < passes.size(); ++chunk) {
    const std::int64_t bytes = passes[chunk].activation_bytes + passes[chunk].working_bytes;
    if (bytes <= cap) continue;
    return fmt::format(
        "its activations alone take {} bytes on {} chunk {}, the layout's activation_caps.{}_bytes "
        "is {}: cut samples shorter (recipe.*), or plan for more memory",
        bytes, module, chunk, module, cap);
  }
  return std::nullopt;
}

struct LayoutModel {
  Layout layout;
  JobModel job;
  PipelineModel pipeline;
};

Result<LayoutModel> model_of(const PlanOptions& options, const CostProfile& starting,
                             const SampleCost& mean_sample) {
  const Layout& layout = *options.layout;
  ISOCOST_TRY(check(options, layout));
  ISOCOST_ASSIGN(JobModel job, JobModel::create(starting));
  ISOCOST_ASSIGN(job.cluster, Cluster::parse_interconnect(layout.interconnect));
  auto pipeline = make_pipeline(job, layout, mean_sample);
  if (!pipeline) {
    return std::move(pipeline).error().with_context("layout " + options.layout_file.string());
  }
  return LayoutModel{layout, std::move(job), *std::move(pipeline)};
}

// Returns whether all work of a stage has a backward pass.
bool has_backward(const PipelineModel& pipeline, const Place& place, const StageWork& work) {
  const bool has_encoder = place.module == LayoutModule::kEncoder ||
                           work.shares.at(static_cast<std::size_t>(CostModule::kVision)) > 0;
  return (!has_encoder || pipeline.encoder.passes.has_backward()) &&
         pipeline.llm.passes.has_backward();
}

std::array<double, kModules> layer_shares_of(const JobModel& job) {
  const auto of_encoder = [&job](CostModule module) {
    const bool second = module != job.encoder_module && job.second_encoder;
    return 1 / static_cast<double>(second ? job.second_encoder->layers : job.encoder.layers);
  };
  return {of_encoder(CostModule::kVision), of_encoder(CostModule::kAudio),
          1 / (static_cast<double>(job.llm.layers) + job.llm_head_layers())};
}

Result<std::vector<Receiver>> make_receivers(const JobModel& job, const Layout& layout,
                                             const PipelineModel& pipeline) {
  std::vector<Receiver> all;
  for (std::size_t i = 0; i < receivers(layout); ++i) {
    const Place place = place_of_receiver(layout, i);
    Receiver receiver;
    receiver.module = place.module;
    receiver.replica = static_cast<std::uint32_t>(place.data);
    receiver.stage = static_cast<std::uint32_t>(place.stage);
    ISOCOST_ASSIGN(receiver.work, stage_work(layout, pipeline, place));
    receiver.has_backward = has_backward(pipeline, place, receiver.work);
    receiver.tensor.fill(encoder_tensor_cost(job, layout));
    receiver.tensor.at(static_cast<std::size_t>(CostModule::kLlm)) = llm_tensor_cost(job, layout);
    receiver.layer_shares = layer_shares_of(job);
    receiver.name = place.to_string();
    all.push_back(std::move(receiver));
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<const ServedLayout>> ServedLayout::create(const PlanOptions& options,
                                                                 const CostProfile& starting,
                                                                 std::span<const Load> loads) {
  if (options.layout == nullptr) return std::unique_ptr<const ServedLayout>();
  ISOCOST_ASSIGN(LayoutModel model, model_of(options, starting, mean_price(starting, loads)));
  ISOCOST_ASSIGN(std::vector<Receiver> receivers,
                 make_receivers(model.job, model.layout, model.pipeline));
  return std::unique_ptr<const ServedLayout>(
      new ServedLayout(std::move(model.layout), std::move(model.pipeline), std::move(model.job),
                       std::move(receivers)));
}

bool ServedLayout::pipelined() const { return has_stages(layout_); }

SampleCost one_rank_cost(const ModuleSeconds& seconds, const Load& load) {
  const auto of = [](CostModule module) { return static_cast<std::size_t>(module); };
  SampleCost sample;
  sample.encoder_s = seconds[of(CostModule::kVision)] + seconds[of(CostModule::kAudio)];
  sample.llm_s = seconds[of(CostModule::kLlm)];
  sample.encoder_units =
      static_cast<double>(load[CostModule::kVision].units + load[CostModule::kAudio].units);
  sample.llm_units = static_cast<double>(load[CostModule::kLlm].units);
  return sample;
}

SampleCost ServedLayout::price(const ModuleSeconds& seconds, const Load& load) const {
  return spread_load(job_, layout_, one_rank_cost(seconds, load));
}

std::optional<std::string> ServedLayout::beyond_memory(const Load& load) const {
  const SampleCost alone = price({}, load);
  std::vector<StagePass> encoder(pipeline_.encoder.shares.size());
  std::vector<StagePass> llm(pipeline_.llm.shares.size());
  if (!encoder.empty()) encoder_passes(pipeline_, alone, encoder);
  llm_passes(pipeline_, alone, llm);
  const ActivationCaps& caps = layout_.activation_caps;
  if (auto reason = beyond(encoder, caps.encoder_bytes, "encoder")) return reason;
  return beyond(llm, caps.llm_bytes, "llm");
}

std::vector<std::string> ServedLayout::warnings() const {
  std::vector<std::string> all = layout_.warnings();
  if (has_experts()) {
    all.emplace_back(
        "the model profile has layers with experts, whose seconds over tensor ranks and memory are "
        "predicted as those of dense layers, and for which no better layout is looked for");
  }
  return all;
}

PipelineModel ServedLayout::pipeline(std::span<const double> slowdowns) const {
  PipelineModel model = pipeline_;
  if (slowdowns.empty()) return model;
  model.llm.slowdowns.assign(model.llm.replicas * model.llm.stages, 1);
  model.encoder.slowdowns.assign(model.encoder.replicas * model.encoder.stages, 1);
  for (std::size_t i = 0; i < std::min(receivers_.size(), slowdowns.size()); ++i) {
    const Receiver& receiver = receivers_[i];
    ModuleStages& module = receiver.module == LayoutModule::kLlm ? model.llm : model.encoder;
    module.slowdowns[receiver.replica * module.stages + receiver.stage] =
        std::clamp(slowdowns[i], 0.01, 100.0);
  }
  return model;
}

ModuleSeconds Receiver::from_one_rank(const ModuleSeconds& seconds, const Load& load) const {
  ModuleSeconds here{};
  for (std::size_t m = 0; m < kModules; ++m) {
    const auto units = static_cast<double>(load.modules.at(m).units);
    here.at(m) = work.shares.at(m) *
                 (tensor.at(m).share * seconds.at(m) + tensor.at(m).seconds_per_unit * units);
  }
  return here;
}

namespace {

// Returns the seconds of one rank for the whole module, of which `share` took `measured_s` on a
// tensor rank. Seconds of reductions between tensor ranks do not belong to the module.
double one_rank_seconds(const TensorCost& tensor, double share, double measured_s,
                        std::int64_t units) {
  constexpr double kLeastWork =
      0.1;  // least share of the measurement that counts as work, even if reductions exceed it
  const double whole = measured_s / share;
  const double alone = whole - tensor.seconds_per_unit * static_cast<double>(units);
  return std::max(alone, kLeastWork * whole) / tensor.share;
}

}  // namespace

ModuleSeconds Receiver::as_one_rank(const ModuleSeconds& measured, const Load& load) const {
  ModuleSeconds seconds{};
  for (std::size_t m = 0; m < kModules; ++m) {
    const double share = work.shares.at(m);
    seconds.at(m) = share > 0 ? measured.at(m) : kNotMeasured;
    if (!(seconds.at(m) > 0)) continue;  // not measured; the cost model refuses other values
    seconds.at(m) = one_rank_seconds(tensor.at(m), share, seconds.at(m), load.modules.at(m).units);
  }
  return seconds;
}

double Receiver::layers_as_one_rank(CostModule of, double layers, double measured_s,
                                    std::int64_t units) const {
  const auto m = static_cast<std::size_t>(of);
  return one_rank_seconds(tensor.at(m), layers * layer_shares.at(m), measured_s, units);
}

Status check_layout(const PlanOptions& options, const CostProfile& starting) {
  // The mean sample only decides where layers are cut, so any sample will do.
  constexpr SampleCost kAnySample{1, 1, 1, 1};
  if (options.layout == nullptr) return {};
  const auto model = model_of(options, starting, kAnySample);
  return model ? Status() : model.error();
}

}  // namespace isocost
