#include "tests/balancer/pipeline/pipeline_support.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace isocost::test {
namespace {

StagePass random_pass(Random& random) {
  return {.forward_s = static_cast<double>(random.below(10)),
          .backward_s = static_cast<double>(random.below(10)),
          .weights_s = static_cast<double>(random.below(10)),
          .activation_bytes = static_cast<std::int64_t>(random.below(1000)),
          .working_bytes = static_cast<std::int64_t>(random.below(300)),
          .output_bytes = static_cast<std::int64_t>(random.below(4))};
}

ModulePipeline random_module(Random& random, std::size_t replicas, std::size_t stages,
                             std::size_t chunks) {
  ModulePipeline module;
  module.stages = stages;
  module.chunks = chunks;
  module.passes.resize(replicas);
  for (LayeredTransfer* transfer : {&module.transfers.gather, &module.transfers.reduce}) {
    transfer->seconds = static_cast<double>(random.below(3));
    transfer->layers = static_cast<double>(1U << random.below(3));  // exact in sums
  }
  return module;
}

void fill(ModulePipeline& module, std::size_t replica, std::size_t slots, Random& random) {
  for (std::size_t i = 0; i < slots * module.model_chunks(); ++i) {
    module.passes[replica].push_back(random_pass(random));
  }
}

// A place in a step: encoder or LLM, replica, slot, chunk of the model, kind.
using PassId = std::tuple<bool, std::size_t, std::size_t, std::size_t, PassKind>;

struct Runner {
  const PipelineStep& step;
  std::map<PassId, double> ended;

  const ModulePipeline& module(bool encoder) const { return encoder ? step.encoder : step.llm; }

  const StagePass& pass_at(bool encoder, std::size_t replica, std::size_t slot,
                           std::size_t chunk) const {
    const ModulePipeline& of = module(encoder);
    return of.passes[replica][slot * of.model_chunks() + chunk];
  }

  bool arrived(const PassId& from, double delay, double now) const {
    const auto found = ended.find(from);
    return found != ended.end() && found->second + delay <= now;
  }

  bool fed(const Feed& feed, PassKind kind, double now) const {
    const double delay = step.link.seconds(feed.bytes);
    if (kind == PassKind::kForward) {
      return arrived({true, feed.encoder_replica, feed.slot, step.encoder.stages - 1, kind}, delay,
                     now);
    }
    return arrived({false, feed.llm_replica, feed.microbatch, 0, kind}, delay, now);
  }

  bool is_ready(bool encoder, std::size_t replica, std::size_t slot, std::size_t chunk,
                PassKind kind, double now) const {
    if (kind == PassKind::kWeights) return true;
    const bool forward = kind == PassKind::kForward;
    const ModulePipeline& of = module(encoder);
    if (forward && chunk > 0) {
      const auto bytes = pass_at(encoder, replica, slot, chunk - 1).output_bytes;
      return arrived({encoder, replica, slot, chunk - 1, kind},
                     of.stages > 1 ? step.link.seconds(bytes) : 0, now);
    }
    if (!forward && chunk + 1 < of.model_chunks()) {
      const auto bytes = pass_at(encoder, replica, slot, chunk).output_bytes;
      return arrived({encoder, replica, slot, chunk + 1, kind},
                     of.stages > 1 ? step.link.seconds(bytes) : 0, now);
    }
    for (const Feed& feed : step.feeds) {
      const bool mine = encoder ? feed.encoder_replica == replica && feed.slot == slot
                                : feed.llm_replica == replica && feed.microbatch == slot;
      if (mine && encoder != forward && !fed(feed, kind, now)) return false;
    }
    return true;
  }
};

double length_of(const StagePass& pass, PassKind kind, Schedule schedule) {
  if (kind == PassKind::kForward) return pass.forward_s;
  if (kind == PassKind::kWeights) return pass.weights_s;
  return schedule == Schedule::kZbH1 ? pass.backward_s : pass.backward_s + pass.weights_s;
}

}  // namespace

PipelineStep equal_step(Schedule schedule, std::size_t replicas, std::size_t stages,
                        std::size_t chunks, std::size_t microbatches, const StagePass& pass) {
  PipelineStep step;
  step.schedule = schedule;
  step.llm.stages = stages;
  step.llm.chunks = chunks;
  step.llm.passes.assign(replicas, std::vector<StagePass>(microbatches * stages * chunks, pass));
  return step;
}

PipelineStep random_step(Random& random) {
  PipelineStep step;
  step.schedule = static_cast<Schedule>(random.below(4));
  const std::size_t stages = 1 + random.below(4);
  const bool interleaves = step.schedule == Schedule::kInterleaved1F1B;
  const std::size_t chunks = interleaves ? 1 + random.below(3) : 1;
  const std::size_t replicas = 1 + random.below(3);
  const std::size_t microbatches =
      chunks > 1 ? stages * (1 + random.below(3)) : 1 + random.below(9);
  step.llm = random_module(random, replicas, stages, chunks);
  for (std::size_t r = 0; r < replicas; ++r) fill(step.llm, r, microbatches, random);
  step.link = {.latency_s = static_cast<double>(random.below(3)),
               .bytes_per_s = static_cast<double>(random.below(2))};
  if (random.below(2) == 0) return step;
  const std::size_t encoders = 1 + random.below(std::min<std::size_t>(3, replicas * microbatches));
  step.encoder = random_module(random, encoders, 1 + random.below(3), 1);
  step.feeds = coupled_feeds(encoders, replicas, microbatches);
  for (std::size_t e = 0; e < encoders; ++e) {
    std::size_t slots = 0;
    for (const Feed& feed : step.feeds) slots += feed.encoder_replica == e ? 1 : 0;
    fill(step.encoder, e, slots, random);
  }
  for (Feed& feed : step.feeds) feed.bytes = static_cast<std::int64_t>(random.below(3));
  // Some microbatches take from a second slot, one that starts no later than their own.
  for (std::size_t i = 0; i < replicas * microbatches; ++i) {
    Feed more = step.feeds[random.below(i + 1)];
    const Feed& into = step.feeds[i];
    if (random.below(3) != 0 || more.microbatch > into.microbatch) continue;
    more.llm_replica = into.llm_replica;
    more.microbatch = into.microbatch;
    step.feeds.push_back(more);
  }
  return step;
}

double tick_by_tick(const PipelineStep& step, const PipelineReport& programs) {
  std::vector<std::vector<Pass>> program(programs.stages.size());
  for (const PipelineEvent& event : programs.events) program[event.device].push_back(event.pass);
  std::vector<std::size_t> next(program.size(), 0);
  std::vector<double> free_at(program.size(), 0);
  Runner runner{.step = step, .ended = {}};
  std::size_t left = programs.events.size();
  double last = 0;
  for (double now = 0; left > 0 && now < 1e5; ++now) {
    for (bool moved = true; moved;) {  // passes of no length end as they start
      moved = false;
      for (std::size_t d = 0; d < program.size(); ++d) {
        if (next[d] == program[d].size() || free_at[d] > now) continue;
        const StageReport& at = programs.stages[d];
        const Pass& pass = program[d][next[d]];
        const std::size_t chunk = pass.chunk * runner.module(at.encoder).stages + at.stage;
        if (!runner.is_ready(at.encoder, at.replica, pass.slot, chunk, pass.kind, now)) continue;
        const double length = length_of(runner.pass_at(at.encoder, at.replica, pass.slot, chunk),
                                        pass.kind, step.schedule);
        free_at[d] = now + length;
        runner.ended[{at.encoder, at.replica, pass.slot, chunk, pass.kind}] = free_at[d];
        last = std::max(last, free_at[d]);
        ++next[d];
        --left;
        moved = true;
      }
    }
  }
  return left == 0 ? last : -1;
}

std::string slots_fault(const PipelineModel& model, std::span<const SampleCost> samples,
                        const MicrobatchBins& bins, const EncoderSlots& encoder) {
  std::vector<std::size_t> microbatch_of(samples.size());
  for (std::size_t slot = 0; slot < bins.size(); ++slot) {
    for (const std::uint32_t sample : bins[slot]) {
      microbatch_of[sample] = slot % model.microbatches;
    }
  }
  if (encoder.size() != model.encoder.replicas) return "wrong number of encoder replicas";
  std::vector<std::size_t> times(samples.size(), 0);
  for (std::size_t e = 0; e < encoder.size(); ++e) {
    const std::string replica = "encoder replica " + std::to_string(e);
    if (encoder[e].empty()) return replica + " has no slot";
    std::size_t before = 0;
    for (const auto& slot : encoder[e]) {
      if (slot.empty()) return replica + " has an empty slot";
      std::size_t last = before;
      for (const std::uint32_t sample : slot) {
        if (microbatch_of[sample] < before) return replica + " has slots in descending order";
        last = std::max(last, microbatch_of[sample]);
        ++times[sample];
      }
      before = last;
    }
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (times[i] == (samples[i].encoder_units > 0 ? 1U : 0U)) continue;
    return "sample " + std::to_string(i) + " is in " + std::to_string(times[i]) + " encoder slots";
  }
  return "";
}

}  // namespace isocost::test
