#include "balancer/pipeline/pipeline_model.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/counted.h"

namespace isocost {
namespace {

constexpr double kFastest = 0.01;
constexpr double kSlowest = 100;
constexpr double kShareRounding = 1e-9;
constexpr double kBoundRounding = 1e-12;  // plans add in a different order

Status check_shares(const std::vector<double>& shares, std::size_t chunks, const char* what) {
  if (shares.size() != chunks) {
    return Error(ErrorCode::kInvalidArgument, "pipeline: " + std::string(what) + " has " +
                                                  counted(chunks, "chunk") + " and " +
                                                  counted(shares.size(), "share"));
  }
  double sum = 0;
  for (const double share : shares) {
    if (!(share >= 0) || !std::isfinite(share)) {
      return Error(ErrorCode::kInvalidArgument,
                   "pipeline: shares of " + std::string(what) + " must not be negative");
    }
    sum += share;
  }
  if (std::abs(sum - 1) > kShareRounding) {
    return Error(ErrorCode::kInvalidArgument,
                 "pipeline: shares of " + std::string(what) + " must add up to one");
  }
  return {};
}

StagePass pass_of(const PassShares& shares, double seconds) {
  return {.forward_s = seconds * shares.forward,
          .backward_s = seconds * shares.inputs,
          .weights_s = seconds * shares.weights};
}

Status check_passes(const PassShares& passes, const char* name) {
  const double sum = passes.forward + passes.inputs + passes.weights;
  if (passes.forward > 0 && passes.inputs >= 0 && passes.weights >= 0 &&
      std::abs(sum - 1) <= kShareRounding) {
    return {};
  }
  return Error(ErrorCode::kInvalidArgument, std::string("pipeline: the shares of the passes of ") +
                                                name + " must add up to one, with a forward pass");
}

Status check_chunks(const ModuleStages& module, std::size_t chunks, const char* name) {
  if (!module.by_chunk.empty() && module.by_chunk.size() != chunks) {
    return Error(ErrorCode::kInvalidArgument, std::string("pipeline: ") + name + " has " +
                                                  counted(chunks, "chunk") + " and passes of " +
                                                  std::to_string(module.by_chunk.size()));
  }
  for (const ChunkPasses& chunk : module.by_chunk) ISOCOST_TRY(check_passes(chunk.passes, name));
  return {};
}

std::int64_t whole(double bytes) { return static_cast<std::int64_t>(bytes); }

Status check_slowdowns(const ModuleStages& module, const char* name) {
  if (!module.slowdowns.empty() && module.slowdowns.size() != module.replicas * module.stages) {
    return Error(ErrorCode::kInvalidArgument,
                 "pipeline: " + counted(module.slowdowns.size(), "slowdown") + " for " +
                     counted(module.replicas, "replica") + " of " +
                     counted(module.stages, "stage") + " of " + name);
  }
  for (const double slowdown : module.slowdowns) {
    if (slowdown >= kFastest && slowdown <= kSlowest) continue;
    return Error(ErrorCode::kInvalidArgument, std::string("pipeline: a slowdown of ") + name +
                                                  " is " + std::to_string(slowdown) +
                                                  "; allowed are 0.01 to 100");
  }
  return {};
}

// Returns the pass of a chunk with layers of both modules.
StagePass both_passes(const PassShares& llm, double llm_s, const PassShares& encoder,
                      double encoder_s) {
  if (encoder == llm) return pass_of(llm, llm_s + encoder_s);  // as one module, also in rounding
  StagePass pass = pass_of(llm, llm_s);
  const StagePass of_encoder = pass_of(encoder, encoder_s);
  pass.forward_s += of_encoder.forward_s;
  pass.backward_s += of_encoder.backward_s;
  pass.weights_s += of_encoder.weights_s;
  return pass;
}

double encoder_seconds(const PipelineModel& model, const SampleCost& load) {
  return load.encoder_units > 0 ? model.encoder.microbatch_seconds(load.encoder_s) : 0.0;
}

double llm_seconds(const PipelineModel& model, const SampleCost& load) {
  return load.llm_units > 0 ? model.llm.microbatch_seconds(load.llm_s) : 0.0;
}

}  // namespace

PassShares PassShares::with_forward(double measured) const {
  if (!has_backward()) return *this;
  const double backward = (1 - measured) / (inputs + weights);
  return {.forward = measured, .inputs = inputs * backward, .weights = weights * backward};
}

PassShares PassShares::as_measured(double measured) const {
  if (measured >= 1) return {.forward = 1, .inputs = 0, .weights = 0};
  if (has_backward()) return with_forward(measured);
  return {.forward = measured, .inputs = (1 - measured) / 2, .weights = (1 - measured) / 2};
}

ChunkPasses ModuleStages::of_chunk(std::size_t chunk, double share) const {
  if (!by_chunk.empty()) return by_chunk[chunk];
  return {.passes = passes,
          .activation_bytes_per_unit = share * activation_bytes_per_unit,
          .working_bytes_per_unit = share > 0 ? working_bytes_per_unit : 0};
}

std::vector<double> ModuleStages::replica_slowdowns() const {
  std::vector<double> slowest;
  for (auto of_replica = slowdowns.begin(); of_replica != slowdowns.end();) {
    const auto end = of_replica + static_cast<std::ptrdiff_t>(stages);
    slowest.push_back(*std::max_element(of_replica, end));
    of_replica = end;
  }
  return slowest;
}

double ModuleStages::capacity(std::size_t stage) const {
  if (slowdowns.empty()) return static_cast<double>(replicas);
  double capacity = 0;
  for (std::size_t i = stage; i < slowdowns.size(); i += stages) capacity += 1 / slowdowns[i];
  return capacity;
}

Status PipelineModel::validate() const {
  if (llm.replicas == 0 || llm.stages == 0 || llm.chunks == 0 || microbatches == 0) {
    return Error(ErrorCode::kInvalidArgument,
                 "pipeline: the LLM needs a replica, a stage and a microbatch");
  }
  ISOCOST_TRY(check_passes(encoder.passes, "the encoder"));
  ISOCOST_TRY(check_passes(llm.passes, "the LLM"));
  ISOCOST_TRY(check_shares(llm.shares, llm.stages * llm.chunks, "the LLM"));
  ISOCOST_TRY(check_slowdowns(llm, "the LLM"));
  ISOCOST_TRY(check_chunks(llm, llm.shares.size(), "the LLM"));
  ISOCOST_TRY(check_chunks(encoder, (encoder.stages > 0 ? encoder.shares : encoder_on_llm).size(),
                           "the encoder"));
  if (encoder.stages == 0) {
    return encoder_on_llm.empty()
               ? Status{}
               : check_shares(encoder_on_llm, llm.stages * llm.chunks, "the encoder's work");
  }
  if (encoder.replicas == 0 || encoder.replicas > slots()) {
    return Error(ErrorCode::kInvalidArgument,
                 "pipeline: " + counted(encoder.replicas, "encoder replica") + " for " +
                     counted(slots(), "microbatch"));
  }
  ISOCOST_TRY(check_slowdowns(encoder, "the encoder"));
  return check_shares(encoder.shares, encoder.stages, "the encoder");
}

void encoder_passes(const PipelineModel& model, const SampleCost& load,
                    std::span<StagePass> passes) {
  const double seconds = encoder_seconds(model, load);
  for (std::size_t c = 0; c < passes.size(); ++c) {
    const double share = model.encoder.shares[c];
    const ChunkPasses chunk = model.encoder.of_chunk(c, share);
    passes[c] = pass_of(chunk.passes, seconds * share);
    passes[c].activation_bytes = whole(load.encoder_units * chunk.activation_bytes_per_unit);
    passes[c].working_bytes = whole(load.encoder_units * chunk.working_bytes_per_unit);
    passes[c].output_bytes = whole(load.encoder_units * model.encoder.output_bytes_per_unit);
  }
}

void llm_passes(const PipelineModel& model, const SampleCost& load, std::span<StagePass> passes) {
  const double seconds = llm_seconds(model, load);
  const double shared = encoder_seconds(model, load);
  for (std::size_t c = 0; c < passes.size(); ++c) {
    const double share = model.llm.shares[c];
    const double encoder_share = model.encoder_on_llm.empty() ? 0.0 : model.encoder_on_llm[c];
    const ChunkPasses chunk = model.llm.of_chunk(c, share);
    const ChunkPasses of_encoder = model.encoder.of_chunk(c, encoder_share);
    passes[c] =
        both_passes(chunk.passes, seconds * share, of_encoder.passes, shared * encoder_share);
    passes[c].activation_bytes = whole(load.llm_units * chunk.activation_bytes_per_unit +
                                       load.encoder_units * of_encoder.activation_bytes_per_unit);
    passes[c].working_bytes =
        std::max(whole(load.llm_units * chunk.working_bytes_per_unit),
                 whole(load.encoder_units * of_encoder.working_bytes_per_unit));
    passes[c].output_bytes = whole(load.llm_units * model.llm.output_bytes_per_unit);
  }
}

void slow_down(std::span<StagePass> passes, const ModuleStages& module, std::size_t replica) {
  if (module.slowdowns.empty()) return;
  const auto slowdowns =
      std::span(module.slowdowns).subspan(replica * module.stages, module.stages);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const double slowdown = slowdowns[i % module.stages];
    passes[i].forward_s *= slowdown;
    passes[i].backward_s *= slowdown;
    passes[i].weights_s *= slowdown;
  }
}

PipelineStep make_step(const PipelineModel& model, std::span<const SampleCost> loads) {
  PipelineStep step{
      .schedule = model.schedule, .encoder = {}, .llm = {}, .feeds = {}, .link = model.link};
  step.encoder_ahead = model.encoder_ahead;
  step.llm.stages = model.llm.stages;
  step.llm.chunks = model.llm.chunks;
  step.llm.transfers = model.llm.transfers;
  const std::size_t chunks = step.llm.model_chunks();
  step.llm.passes.assign(model.llm.replicas, std::vector<StagePass>(model.microbatches * chunks));
  for (std::size_t slot = 0; slot < model.slots(); ++slot) {
    auto& passes = step.llm.passes[slot / model.microbatches];
    llm_passes(model, loads[slot],
               std::span(passes).subspan(slot % model.microbatches * chunks, chunks));
  }
  for (std::size_t r = 0; r < step.llm.passes.size(); ++r) {
    slow_down(step.llm.passes[r], model.llm, r);
  }
  if (model.encoder.stages == 0) return step;
  step.encoder.stages = model.encoder.stages;
  step.encoder.transfers = model.encoder.transfers;
  step.encoder.passes.resize(model.encoder.replicas);
  step.feeds = coupled_feeds(model.encoder.replicas, model.llm.replicas, model.microbatches);
  std::vector<StagePass> row(model.encoder.stages);
  for (Feed& feed : step.feeds) {  // by encoder replica, in the order of its slots
    const SampleCost& load = loads[feed.llm_replica * model.microbatches + feed.microbatch];
    encoder_passes(model, load, row);
    slow_down(row, model.encoder, feed.encoder_replica);
    auto& passes = step.encoder.passes[feed.encoder_replica];
    passes.insert(passes.end(), row.begin(), row.end());
    feed.bytes = whole(load.llm_units * model.feed_bytes_per_llm_unit);
  }
  return step;
}

std::vector<SampleCost> microbatch_loads(std::span<const SampleCost> samples,
                                         const MicrobatchBins& bins) {
  std::vector<SampleCost> loads(bins.size());
  for (std::size_t b = 0; b < bins.size(); ++b) {
    for (const std::uint32_t sample : bins[b]) loads[b] += samples[sample];
  }
  return loads;
}

namespace {

// Returns a module's seconds over all replicas: those of the samples, plus the fixed seconds of the
// microbatches that have work for it. Each microbatch holds a sample, so the number of microbatches
// without work is at most the number of samples without.
double seconds_of_all(std::span<const SampleCost> samples, std::size_t slots, double fixed_s,
                      double SampleCost::* seconds, double SampleCost::* units) {
  double sum = 0;
  std::size_t with = 0;
  for (const SampleCost& sample : samples) {
    sum += sample.*seconds;
    if (sample.*units > 0) ++with;
  }
  const std::size_t without = samples.size() - with;
  const std::size_t least = slots > without ? slots - without : 0;
  return sum + fixed_s * static_cast<double>(std::min(with, std::max<std::size_t>(least, 1)));
}

}  // namespace

double pipeline_bound(const PipelineModel& model, std::span<const SampleCost> samples) {
  const double encoder = seconds_of_all(samples, model.slots(), model.encoder.beside_samples_s(),
                                        &SampleCost::encoder_s, &SampleCost::encoder_units);
  const double llm = seconds_of_all(samples, model.slots(), model.llm.beside_samples_s(),
                                    &SampleCost::llm_s, &SampleCost::llm_units);
  double bound = 0;
  for (std::size_t stage = 0; stage < model.llm.stages; ++stage) {
    double busy = 0;
    for (std::size_t c = stage; c < model.llm.shares.size(); c += model.llm.stages) {
      busy += llm * model.llm.shares[c];
      if (!model.encoder_on_llm.empty()) busy += encoder * model.encoder_on_llm[c];
    }
    bound = std::max(bound, model.llm.transfers.bound_s(busy / model.llm.capacity(stage)));
  }
  for (std::size_t stage = 0; stage < model.encoder.stages; ++stage) {
    const double busy = encoder * model.encoder.shares[stage];
    bound = std::max(bound, model.encoder.transfers.bound_s(busy / model.encoder.capacity(stage)));
  }
  return bound * (1 - kBoundRounding);
}

}  // namespace isocost
