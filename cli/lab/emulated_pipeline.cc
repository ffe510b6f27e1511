#include "cli/lab/emulated_pipeline.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "balancer/layout/place.h"
#include "base/counted.h"
#include "cli/lab/barrier.h"
#include "cli/lab/emulated_work.h"
#include "cli/lab/fault.h"
#include "cli/lab/replica_timeline.h"
#include "costmodel/cost_model.h"
#include "costmodel/sample_cost.h"
#include "trainer_adapter/client.h"

namespace isocost::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Time = EmulatedTime;

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

double seconds_between(Time from, Time to) {
  return std::chrono::duration<double>(to - from).count();
}

/// The thread of one stage of a replica.
struct StageThread {
  bool encoder = false;
  std::uint32_t replica = 0;
  std::uint32_t stage = 0;
  std::size_t number = 0;  ///< Index among all threads.
};

/// A microbatch on one stage.
struct Slot {
  Report report;
  EmulatedMicrobatch microbatch;  ///< Only the LLM's first stage sets the feeds.
  std::vector<Route> routes;
  double seconds = 0;    ///< Modelled seconds of all passes so far.
  double forward_s = 0;  ///< The forward pass's part of them.

  // An encoder's microbatch without media needs no passes.
  bool empty(const StageThread& stage) const { return stage.encoder && routes.empty(); }
};

/// All stages of a job: runs a thread per stage.
class EmulatedPipeline {
 public:
  EmulatedPipeline(const EmulatedJob& job, const std::stop_token& stop)
      : job_(job),
        prices_(job.job.profile),
        fault_(stop),
        encoder_(side(job.model.encoder)),
        llm_(side(job.model.llm)) {
    for (const bool encoder : {true, false}) {
      const ModuleStages& module = encoder ? job.model.encoder : job.model.llm;
      for (std::uint32_t r = 0; r < module.replicas && module.stages > 0; ++r) {
        for (std::uint32_t s = 0; s < module.stages; ++s) {
          stages_.push_back({encoder, r, s, stages_.size()});
        }
      }
    }
    waits_.resize(stages_.size());
    slots_of_step_.resize(stages_.size());
    start_ = std::make_unique<Barrier>(stages_.size(), [this] { begin_step(); });
    end_ = std::make_unique<Barrier>(stages_.size(), [this] { end_step(); });
  }

  Result<std::vector<EmulatedStep>> run() {
    ISOCOST_ASSIGN(taken_, taken_before(job_.model.schedule, job_.model.llm.stages, /*chunks=*/1,
                                        job_.model.microbatches));
    {
      std::vector<std::jthread> threads;
      for (const StageThread& stage : stages_) {
        threads.emplace_back([this, &stage] {
          const Status status = train(stage);
          if (!status) fault_.raise(status.error());
        });
      }
    }
    if (const auto error = fault_.error()) return *error;
    if (steps_.size() < job_.steps) return Error(ErrorCode::kCancelled, "stopped");
    return std::move(steps_);
  }

 private:
  /// One module.
  struct Side {
    std::vector<std::unique_ptr<ReplicaTimeline>> timelines;  // [replicas]
    std::vector<std::unique_ptr<Barrier>> reductions;         // [stages]
  };

  static Side side(const ModuleStages& module) {
    Side side;
    if (module.stages == 0) return side;
    for (std::size_t r = 0; r < module.replicas; ++r) {
      side.timelines.push_back(std::make_unique<ReplicaTimeline>());
    }
    for (std::size_t s = 0; s < module.stages; ++s) {
      side.reductions.push_back(std::make_unique<Barrier>(module.replicas, nullptr));
    }
    return side;
  }

  Side& side_of(const StageThread& stage) { return stage.encoder ? encoder_ : llm_; }
  ReplicaTimeline& timeline_of(const StageThread& stage) {
    return *side_of(stage).timelines[stage.replica];
  }
  const ModuleStages& module_of(const StageThread& stage) const {
    return stage.encoder ? job_.model.encoder : job_.model.llm;
  }
  bool is_last(const StageThread& stage) const {
    return stage.stage + 1 == module_of(stage).stages;
  }
  Time deadline() const { return Clock::now() + job_.timeout; }

  Status train(const StageThread& stage) {
    const Place place{stage.encoder ? LayoutModule::kEncoder : LayoutModule::kLlm, stage.replica,
                      stage.stage, 0};
    ISOCOST_ASSIGN(const std::size_t receiver, receiver_of(job_.layout, place));
    ClientOptions options;
    options.endpoint = job_.endpoint;
    options.rank = static_cast<std::int32_t>(receiver);
    options.world_size = static_cast<std::int32_t>(receivers(job_.layout));
    options.layout = job_.layout.fingerprint();
    ISOCOST_ASSIGN(const std::unique_ptr<Client> client, Client::connect(options));
    Status status;
    for (std::size_t step = 0; status && step < job_.warm_up + job_.steps; ++step) {
      status = run_step(stage, step, *client);
    }
    client->close();
    return status;
  }

  Status run_step(const StageThread& stage, std::size_t step, Client& client) {
    if (stage.stage == 0) timeline_of(stage).clear();
    ISOCOST_TRY(join(*start_));
    std::vector<Slot> slots;
    if (stage.encoder) {  // its program depends on all microbatches of the step
      do {
        ISOCOST_TRY(receive(stage, step, client, slots));
      } while (slots.size() < slots_of_step_[stage.number]);
    }
    ISOCOST_ASSIGN(const std::vector<Pass> program, program_of(stage, slots));
    for (const Pass& pass : program) {
      if (pass.slot == slots.size()) ISOCOST_TRY(receive(stage, step, client, slots));
      if (!slots[pass.slot].empty(stage)) ISOCOST_TRY(run_pass(stage, pass, slots[pass.slot]));
    }
    ISOCOST_TRY(join(*side_of(stage).reductions[stage.stage]));
    std::this_thread::sleep_for(duration_of(module_of(stage).reduce_s * job_.time_scale));
    ISOCOST_TRY(join(*end_));
    for (const Slot& slot : slots) ISOCOST_TRY(send_report(slot, client));
    return {};
  }

  Result<std::vector<Pass>> program_of(const StageThread& stage,
                                       const std::vector<Slot>& slots) const {
    const PipelineModel& model = job_.model;
    if (!stage.encoder) {
      return stage_program(model.schedule, model.llm.stages, stage.stage, /*chunks=*/1,
                           model.microbatches, model.encoder.stages + stage.stage);
    }
    std::vector<FedMicrobatches> fed;
    for (const Slot& slot : slots) {
      // An empty slot is placed with the one before it.
      FedMicrobatches& of_slot = fed.emplace_back(fed.empty() ? FedMicrobatches{} : fed.back());
      if (slot.routes.empty()) continue;
      const auto [first, last] = std::minmax_element(
          slot.routes.begin(), slot.routes.end(),
          [](const Route& a, const Route& b) { return a.microbatch < b.microbatch; });
      of_slot = {first->microbatch, last->microbatch};
    }
    const std::size_t lead = model.encoder.stages - stage.stage + model.encoder_ahead;
    return feeding_program(model.schedule, forwards_before(taken_, fed, lead), stage.stage);
  }

  Status join(Barrier& barrier) {
    if (barrier.join(fault_.token(), deadline())) return {};
    return stopped_waiting("another stage");
  }

  Error stopped_waiting(const char* what) const {
    if (fault_.token().stop_requested()) return {ErrorCode::kCancelled, "stopped"};
    return {ErrorCode::kDeadlineExceeded,
            std::string("emulated trainer: waited too long for ") + what};
  }

  Result<Time> end_of(ReplicaTimeline& timeline, std::size_t stage, PassKind kind,
                      std::uint32_t slot) {
    const auto ended = timeline.wait_for(stage, slot, kind, fault_.token(), deadline());
    if (!ended) return stopped_waiting("a microbatch");
    return *ended;
  }

  // Sleeps until bytes that were sent at that time have arrived.
  void await_transfer(Time sent, double bytes) const {
    const double delay = job_.model.link.seconds(static_cast<std::int64_t>(bytes));
    std::this_thread::sleep_until(sent + duration_of(delay * job_.time_scale));
  }

  Status await_inputs(const StageThread& stage, const Pass& pass, const Slot& slot) {
    const bool forward = pass.kind == PassKind::kForward;
    if (forward ? stage.stage > 0 : !is_last(stage)) {
      const std::size_t neighbour = forward ? stage.stage - 1 : stage.stage + 1;
      ISOCOST_ASSIGN(const Time ended, end_of(timeline_of(stage), neighbour, pass.kind, pass.slot));
      const SampleCost& load = slot.microbatch.load;
      const double units = stage.encoder ? load.encoder_units : load.llm_units;
      await_transfer(ended, units * module_of(stage).output_bytes_per_unit);
      return {};
    }
    if (forward) return await_rows(slot);
    return stage.encoder ? await_gradients(stage, pass.slot, slot) : Status{};
  }

  // The LLM's first stage waits for the outputs of the encoder's last stage.
  Status await_rows(const Slot& slot) {
    for (const EmulatedFeed& feed : slot.microbatch.feeds) {
      ISOCOST_ASSIGN(const Time ended,
                     end_of(*encoder_.timelines[feed.encoder_replica],
                            job_.model.encoder.stages - 1, PassKind::kForward, feed.slot));
      await_transfer(ended, static_cast<double>(feed.bytes));
    }
    return {};
  }

  // The encoder's last stage waits for the gradients of these outputs.
  Status await_gradients(const StageThread& stage, std::uint32_t number, const Slot& slot) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> fed;  // LLM replica, microbatch
    for (const Route& route : slot.routes) fed.emplace(route.replica, route.microbatch);
    for (const auto& [replica, microbatch] : fed) {
      ReplicaTimeline& llm = *llm_.timelines[replica];
      ISOCOST_ASSIGN(const Time ended, end_of(llm, 0, PassKind::kBackward, microbatch));
      for (const EmulatedFeed& feed : llm.microbatch(microbatch).feeds) {
        if (feed.encoder_replica != stage.replica || feed.slot != number) continue;
        await_transfer(ended, static_cast<double>(feed.bytes));
      }
    }
    return {};
  }

  // Waits for the inputs of the pass, sleeps for its seconds, and tells the neighbours.
  Status run_pass(const StageThread& stage, const Pass& pass, Slot& slot) {
    if (pass.kind != PassKind::kWeights) ISOCOST_TRY(await_inputs(stage, pass, slot));
    const Time started = Clock::now();
    const double seconds = pass_seconds(stage, pass.kind, slot.microbatch.load);
    std::this_thread::sleep_until(started + duration_of(seconds * job_.time_scale));
    slot.seconds += seconds;
    if (pass.kind == PassKind::kForward) slot.forward_s = slot.seconds;
    if (pass.kind != PassKind::kWeights) {
      timeline_of(stage).end(stage.stage, pass.slot, pass.kind, Clock::now());
    }
    return {};
  }

  Status receive(const StageThread& stage, std::size_t step, Client& client,
                 std::vector<Slot>& slots) {
    ISOCOST_ASSIGN(auto next, client.next(fault_.token()));
    if (!next) {  // an epoch ended between two steps
      ISOCOST_ASSIGN(next, client.next(fault_.token()));
    }
    if (!next) return Error(ErrorCode::kUnavailable, "the node ran out of microbatches");
    const MicrobatchHeader& header = next->header;
    if (header.position.microbatch != slots.size() ||
        (!stage.encoder && header.microbatches != job_.model.microbatches)) {
      return Error(ErrorCode::kInvalidArgument,
                   "the node delivers " + counted(header.microbatches, "microbatch") +
                       " a step, not " + std::to_string(job_.model.microbatches));
    }
    slots_of_step_[stage.number] = header.microbatches;
    waits_[stage.number] += std::chrono::duration<double>(next->waited).count();
    Slot& slot = slots.emplace_back();
    slot.report = {header.position, header.predicted_seconds};
    slot.routes = header.routes;
    // All stages of a replica compute the same load.
    slot.microbatch.load = disturbed(
        job_.disturbance, {stage.encoder, stage.replica, step, header.position.microbatch},
        spread_load(job_.job, job_.layout, prices_.of(header.load)));
    if (!stage.encoder && stage.stage == 0) slot.microbatch.feeds = feeds_of(header);
    if (stage.stage == 0) timeline_of(stage).set(header.position.microbatch, slot.microbatch);
    return {};
  }

  // A feed has the bytes of the samples that have rows in it.
  std::vector<EmulatedFeed> feeds_of(const MicrobatchHeader& header) const {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::set<std::uint32_t>> samples;
    for (const Route& route : header.routes) {
      samples[{route.replica, route.microbatch}].insert(route.sample);
    }
    std::vector<EmulatedFeed> feeds;
    for (const auto& [from, fed] : samples) {
      double units = 0;
      for (const std::uint32_t i : fed) {
        const Load& load = job_.loads[header.samples.at(i).id % job_.loads.size()];
        units += prices_.of(load).llm_units;
      }
      feeds.push_back({from.first, from.second,
                       static_cast<std::int64_t>(units * job_.model.feed_bytes_per_llm_unit)});
    }
    return feeds;
  }

  // Reports modelled seconds. Measured ones would hold the delays of this machine's threads, which
  // say nothing about the emulated cluster. Each module gets the share that the node predicted.
  Status send_report(const Slot& slot, Client& client) const {
    const auto& predicted = slot.report.seconds;
    const double sum = std::accumulate(predicted.begin(), predicted.end(), 0.0);
    Report report = slot.report;
    for (double& seconds : report.seconds) {
      seconds = sum > 0 && seconds > 0 ? slot.seconds * seconds / sum : kNotMeasured;
    }
    if (sum > 0) report.forward_s = slot.forward_s;
    return client.report(report);
  }

  double pass_seconds(const StageThread& stage, PassKind kind, const SampleCost& load) const {
    std::vector<StagePass> passes(module_of(stage).stages);
    (stage.encoder ? encoder_passes : llm_passes)(job_.model, load, passes);
    const StagePass& pass = passes[stage.stage];
    if (kind == PassKind::kForward) return pass.forward_s;
    if (kind == PassKind::kWeights) return pass.weights_s;
    return job_.model.schedule == Schedule::kZbH1 ? pass.backward_s
                                                  : pass.backward_s + pass.weights_s;
  }

  // begin_step and end_step run at a barrier, while every other thread waits.
  void begin_step() {
    std::fill(waits_.begin(), waits_.end(), 0.0);
    std::fill(slots_of_step_.begin(), slots_of_step_.end(), 0);
    step_started_ = Clock::now();
  }

  void end_step() {
    if (++finished_ <= job_.warm_up) return;
    EmulatedStep step;
    step.seconds = seconds_between(step_started_, Clock::now());
    for (const double wait : waits_) {
      step.data_wait_s += wait / static_cast<double>(waits_.size());
    }
    const auto llm = all_of(llm_);
    step.work = work_of(job_.model, all_of(encoder_), llm);
    step.coupled = is_coupled(llm);
    steps_.push_back(std::move(step));
  }

  static std::vector<std::vector<EmulatedMicrobatch>> all_of(const Side& side) {
    std::vector<std::vector<EmulatedMicrobatch>> microbatches;
    for (const auto& timeline : side.timelines) microbatches.push_back(timeline->microbatches());
    return microbatches;
  }

  const EmulatedJob& job_;
  const SamplePrices prices_;
  Fault fault_;
  Side encoder_;
  Side llm_;
  std::vector<StageThread> stages_;
  std::unique_ptr<Barrier> start_;
  std::unique_ptr<Barrier> end_;
  std::vector<std::uint32_t> taken_;          // [microbatches], see taken_before
  std::vector<double> waits_;                 // [stages], seconds; read at the barriers
  std::vector<std::uint32_t> slots_of_step_;  // [stages], microbatches in this step
  Time step_started_;
  std::size_t finished_ = 0;
  std::vector<EmulatedStep> steps_;
};

}  // namespace

Result<std::vector<EmulatedStep>> run_emulated_pipeline(const EmulatedJob& job,
                                                        const std::stop_token& stop) {
  ISOCOST_TRY(job.model.validate());
  return EmulatedPipeline(job, stop).run();
}

}  // namespace isocost::cli
