#include "cli/lab/stage_thread.h"

#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "balancer/layout/place.h"
#include "base/counted.h"

namespace isocost::cli {
namespace {

using Clock = EmulatedTime::clock;

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

StageThread::StageThread(const StageId& id, SharedPipeline& shared)
    : id_(id),
      shared_(shared),
      job_(shared.job),
      module_(id.encoder ? job_.model.encoder : job_.model.llm),
      own_(id.encoder ? shared.encoder : shared.llm),
      clock_(job_.virtual_clock) {}

EmulatedTime StageThread::deadline() const { return Clock::now() + job_.timeout; }

Status StageThread::train() {
  const Place place{id_.encoder ? LayoutModule::kEncoder : LayoutModule::kLlm, id_.replica,
                    id_.stage, 0};
  ISOCOST_ASSIGN(const std::size_t receiver, receiver_of(job_.layout, place));
  ClientOptions options;
  options.endpoint = job_.endpoint;
  options.rank = static_cast<std::int32_t>(receiver);
  options.world_size = static_cast<std::int32_t>(receivers(job_.layout));
  options.layout = job_.layout.fingerprint();
  ISOCOST_ASSIGN(client_, Client::connect(options));
  Status status;
  for (std::size_t step = 0; status && step < job_.warm_up + job_.steps; ++step) {
    status = run_step(step);
  }
  client_->close();
  return status;
}

Status StageThread::run_step(std::size_t step) {
  microbatches_.clear();
  if (is_first()) own_.timelines[id_.replica]->clear();
  ISOCOST_TRY(join(shared_.start));
  began_ = clock_.now();
  last_pass_s_.reset();
  if (id_.encoder) {  // its program depends on all microbatches of the step
    do {
      ISOCOST_TRY(receive(step));
    } while (microbatches_.size() < expected_);
  }
  ISOCOST_ASSIGN(const std::vector<Pass> passes, program());
  for (const Pass& pass : passes) {
    if (pass.slot == microbatches_.size()) ISOCOST_TRY(receive(step));
    if (has_work(microbatches_[pass.slot])) ISOCOST_TRY(run_pass(pass));
  }
  if (!last_pass_s_) await_weights(0);
  const double exposed_s = module_.transfers.reduce.exposed_s(last_pass_s_.value_or(0));
  clock_.wait_until(clock_.now() + duration_of(exposed_s * job_.time_scale));
  ISOCOST_TRY(join(*own_.reductions[id_.stage]));
  ISOCOST_TRY(join(shared_.end));
  for (const StageMicrobatch& microbatch : microbatches_) {
    ISOCOST_TRY(client_->report(report_of(microbatch)));
  }
  return {};
}

Status StageThread::receive(std::size_t step) {
  ISOCOST_ASSIGN(auto next, client_->next(shared_.fault.token()));
  if (!next) {  // an epoch ended between two steps
    ISOCOST_ASSIGN(next, client_->next(shared_.fault.token()));
  }
  if (!next) return Error(ErrorCode::kUnavailable, "the node ran out of microbatches");
  const MicrobatchHeader& header = next->header;
  const std::uint32_t slot = header.position.microbatch;
  if (slot != microbatches_.size() ||
      (!id_.encoder && header.microbatches != job_.model.microbatches)) {
    return Error(ErrorCode::kInvalidArgument,
                 "the node delivers " + counted(header.microbatches, "microbatch") +
                     " a step, not " + std::to_string(job_.model.microbatches));
  }
  expected_ = header.microbatches;
  StageMicrobatch& microbatch = microbatches_.emplace_back();
  microbatch.report = {header.position, header.predicted_seconds};
  microbatch.routes = header.routes;
  // All stages of a replica compute the same load.
  SampleCost load = shared_.prices.of(header.load);
  const EmulatedDisturbance& by = job_.disturbance;
  if (!id_.encoder) load.llm_s += anomalous_s(by.anomalies, header, job_.loads, shared_.prices);
  microbatch.work.measured = header.seconds_wanted;
  microbatch.measuring = header.seconds_wanted ? by.measuring_cost : 0;
  microbatch.work.load = disturbed(by, {id_.encoder, id_.replica, step, slot},
                                   spread_load(job_.job, job_.layout, load));
  microbatch.work.load.encoder_s *= 1 + microbatch.measuring;
  microbatch.work.load.llm_s *= 1 + microbatch.measuring;
  if (!is_first()) return {};
  if (!id_.encoder) {
    microbatch.work.feeds =
        feeds_of(header, job_.loads, shared_.prices, job_.model.feed_bytes_per_llm_unit);
  }
  own_.timelines[id_.replica]->set(slot, microbatch.work);
  return {};
}

Result<std::vector<Pass>> StageThread::program() const {
  const PipelineModel& model = job_.model;
  if (!id_.encoder) {
    return stage_program(model.schedule, model.llm.stages, id_.stage, /*chunks=*/1,
                         model.microbatches, model.encoder.stages + id_.stage);
  }
  const std::size_t lead = model.encoder.stages - id_.stage + model.encoder_ahead;
  return feeding_program(model.schedule,
                         forwards_before(shared_.taken, fed_by(microbatches_), lead), id_.stage);
}

// Waits for the inputs of the pass and for its seconds, and informs the neighbours.
Status StageThread::run_pass(const Pass& pass) {
  if (pass.kind != PassKind::kWeights) ISOCOST_TRY(await_inputs(pass));
  StageMicrobatch& microbatch = microbatches_[pass.slot];
  const double seconds = pass_seconds(pass.kind, microbatch.work.load);
  if (!last_pass_s_) await_weights(seconds);
  const EmulatedTime started = clock_.now();
  clock_.wait_until(started + duration_of(seconds * job_.time_scale));
  last_pass_s_ = seconds;
  microbatch.seconds += seconds;
  if (pass.kind == PassKind::kForward) microbatch.forward_s = microbatch.seconds;
  if (pass.kind != PassKind::kWeights) {
    own_.timelines[id_.replica]->end(id_.stage, pass.slot, pass.kind, clock_.now());
  }
  return {};
}

// Waits, before the step's first pass, until updated weights no longer delay it.
void StageThread::await_weights(double pass_s) {
  const double exposed_s = module_.transfers.gather.exposed_s(pass_s);
  clock_.wait_until(began_ + duration_of(exposed_s * job_.time_scale));
}

double StageThread::pass_seconds(PassKind kind, const SampleCost& load) const {
  std::vector<StagePass> passes(module_.stages);
  (id_.encoder ? encoder_passes : llm_passes)(job_.model, load, passes);
  const StagePass& pass = passes[id_.stage];
  if (kind == PassKind::kForward) return pass.forward_s;
  if (kind == PassKind::kWeights) return pass.weights_s;
  return job_.model.schedule == Schedule::kZbH1 ? pass.backward_s
                                                : pass.backward_s + pass.weights_s;
}

Status StageThread::await_inputs(const Pass& pass) {
  const bool forward = pass.kind == PassKind::kForward;
  if (forward ? !is_first() : !is_last()) return await_neighbour(pass);
  if (forward) return await_rows(microbatches_[pass.slot]);
  return id_.encoder ? await_gradients(pass.slot) : Status{};
}

// Waits for activations from the stage before, or for their gradients from the one after.
Status StageThread::await_neighbour(const Pass& pass) {
  const std::size_t neighbour =
      pass.kind == PassKind::kForward ? id_.stage - std::size_t{1} : id_.stage + std::size_t{1};
  ISOCOST_ASSIGN(const EmulatedTime ended,
                 end_of(*own_.timelines[id_.replica], neighbour, pass.kind, pass.slot));
  const SampleCost& load = microbatches_[pass.slot].work.load;
  const double units = id_.encoder ? load.encoder_units : load.llm_units;
  await_transfer(ended, units * module_.output_bytes_per_unit);
  return {};
}

// Waits, in the LLM's first stage, for the outputs of the encoder's last stage.
Status StageThread::await_rows(const StageMicrobatch& microbatch) {
  for (const EmulatedFeed& feed : microbatch.work.feeds) {
    ISOCOST_ASSIGN(const EmulatedTime ended,
                   end_of(*shared_.encoder.timelines[feed.encoder_replica],
                          job_.model.encoder.stages - 1, PassKind::kForward, feed.slot));
    await_transfer(ended, static_cast<double>(feed.bytes));
  }
  return {};
}

// Waits, in the encoder's last stage, for the gradients of these outputs.
Status StageThread::await_gradients(std::uint32_t slot) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> fed;  // LLM replica, microbatch
  for (const Route& route : microbatches_[slot].routes)
    fed.emplace(route.replica, route.microbatch);
  for (const auto& [replica, microbatch] : fed) {
    ReplicaTimeline& llm = *shared_.llm.timelines[replica];
    ISOCOST_ASSIGN(const EmulatedTime ended, end_of(llm, 0, PassKind::kBackward, microbatch));
    for (const EmulatedFeed& feed : llm.microbatch(microbatch).feeds) {
      if (feed.encoder_replica != id_.replica || feed.slot != slot) continue;
      await_transfer(ended, static_cast<double>(feed.bytes));
    }
  }
  return {};
}

Result<EmulatedTime> StageThread::end_of(ReplicaTimeline& timeline, std::size_t stage,
                                         PassKind kind, std::uint32_t slot) const {
  const auto ended = timeline.wait_for(stage, slot, kind, shared_.fault.token(), deadline());
  if (!ended) return stopped_waiting("a microbatch");
  return *ended;
}

// Waits until bytes that were sent at that time have arrived.
void StageThread::await_transfer(EmulatedTime sent, double bytes) {
  const double delay = job_.model.link.seconds(static_cast<std::int64_t>(bytes));
  clock_.wait_until(sent + duration_of(delay * job_.time_scale));
}

Status StageThread::join(Barrier& barrier) {
  const auto latest = barrier.join(clock_.now(), shared_.fault.token(), deadline());
  if (!latest) return stopped_waiting("another stage");
  clock_.wait_until(*latest);
  return {};
}

Error StageThread::stopped_waiting(const char* what) const {
  if (shared_.fault.token().stop_requested()) return {ErrorCode::kCancelled, "stopped"};
  return {ErrorCode::kDeadlineExceeded,
          std::string("emulated trainer: waited too long for ") + what};
}

}  // namespace isocost::cli
