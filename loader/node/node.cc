#include "loader/node/node.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "loader/metrics/endpoint.h"
#include "loader/metrics/prometheus_text.h"
#include "loader/metrics/status_json.h"
#include "loader/node/internal/admission.h"
#include "loader/node/internal/delivery_queue.h"
#include "loader/node/internal/measurement.h"
#include "loader/node/internal/microbatch_header.h"
#include "loader/node/internal/node_parts.h"
#include "loader/node/internal/step_decoder.h"
#include "loader/node/internal/step_source.h"
#include "loader/node/internal/training_meter.h"
#include "loader/plan/missing_reports.h"
#include "loader/plan/served_layout.h"
#include "loader/report/timeline.h"
#include "transport/server.h"

namespace isocost {
namespace {

using Clock = std::chrono::steady_clock;

// How long a node that is done waits for its clients' goodbyes.
constexpr std::chrono::seconds kDrainTimeout{5};

// One job's planning.
struct Run {
  std::uint64_t job;
  StartPoint start;
  NodeOptions options;  // with the job's data-parallel ranks
  std::stop_token stop;
};

Error superseded() { return {ErrorCode::kCancelled, "another job has begun"}; }

class NodeImpl final : public Node {
 public:
  explicit NodeImpl(NodeParts parts)
      : parts_(std::move(parts)),
        steps_(parts_),
        offer_{parts_.options, parts_.receivers(), parts_.layout ? parts_.layout->fingerprint() : 0,
               parts_.layout && parts_.layout->pipelined(), steps_.fingerprint()},
        budget_(parts_.options.decode.memory) {}

  Status start();
  const std::string& endpoint() const override { return server_->endpoint(); }
  const Dataset& dataset() const override { return *parts_.dataset; }
  Result<NodeSummary> run(const std::stop_token& stop) override;
  bool wait_until_left(std::chrono::milliseconds limit) override;
  NodeSummary summary() override;
  NodeMetrics metrics() override;
  std::string timeline_svg() const override { return timeline_ ? timeline_->svg() : ""; }
  std::string metrics_url() const override { return metrics_ ? metrics_->url() : std::string(); }

 private:
  tl::expected<Welcome, Refusal> admit(const JoinRequest& request);
  void compare_hardware(const Hello& hello);
  Welcome welcome(const Job& job) const;
  void on_event(const ServerEvent& event);
  void take_report(std::int32_t rank, const Report& report);

  Result<Run> wait_for_job(const std::stop_token& stop);
  void plan_all(const Run& run);
  Status plan_epoch(const Run& run, std::uint32_t epoch, std::uint32_t first_step);
  Status plan_one(const Run& run, std::uint32_t epoch, std::uint32_t step);
  Status wait_for_room(const Run& run);
  Status push(const Run& run, std::shared_ptr<SealedStep> step);
  Status push(const Run& run, const EpochEnd& end);
  void count(const SealedStep& step);

  Status deliver_all(std::uint64_t job, const std::stop_token& stop);
  Status deliver(const DeliveryQueue::Delivery& delivery, std::uint64_t session,
                 const std::stop_token& stop);
  std::string name_of(std::int32_t rank) const;
  void fail_blocked_ranks();
  void decode_and_send(const StepPlan& plan, std::size_t receiver, std::uint64_t session,
                       Fragment fragment, SampleId id, MemoryBudget::Grant grant);
  void fail(Error error);
  bool serves(std::uint64_t job) const { return job_ && job_->id() == job; }  // with mutex_ held
  void wait_until_told();

  const Clock::time_point made_ = Clock::now();
  NodeParts parts_;
  StepSource steps_;  // the planning thread's
  const JobOffer offer_;
  bool hardware_compared_ = false;  // the socket's thread's
  BufferPool pool_;
  MemoryBudget budget_;
  TrainingMeter meter_;
  std::unique_ptr<Timeline> timeline_;  // where metrics are served

  std::mutex mutex_;  // guards all down to failure_
  std::condition_variable_any changed_;
  std::unique_ptr<Job> job_;  // made and replaced by the socket's thread
  OpenSteps<MeasuredModules> measured_;
  NodeSummary counts_;
  std::optional<Error> failure_;

  // Destroyed in reverse: the metrics first, since they ask all others; then workers, since they
  // decode and send; the socket last, which lets go of what it holds.
  std::unique_ptr<Server> server_;
  std::unique_ptr<StepDecoder> decoder_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<MetricsEndpoint> metrics_;
};

Status NodeImpl::start() {
  const NodeOptions& options = parts_.options;
  ServerOptions server = server_options(options);
  server.rank_name = [this](std::int32_t rank) { return name_of(rank); };
  // With the receivers known, planning need not wait for the first of them.
  if (offer_.receivers > 0) {
    ISOCOST_ASSIGN(Job job, new_job(Hello{}, 1, offer_));
    job_ = std::make_unique<Job>(std::move(job));
  }
  ISOCOST_ASSIGN(server_, Server::create(
                              server, [this](const JoinRequest& request) { return admit(request); },
                              [this](const ServerEvent& event) { on_event(event); }, parts_.log));
  if (parts_.layout) {
    for (const std::string& warning : parts_.layout->warnings()) {
      log(parts_.log, LogLevel::kWarning,
          "layout " + options.plan.layout.string() + ": " + warning);
    }
  }
  executor_ = make_executor(static_cast<std::size_t>(options.decode.workers));
  decoder_ = std::make_unique<StepDecoder>(
      StepDecoder::Context{parts_.dataset.get(), &parts_.recipe, executor_.get(), &budget_, &pool_,
                           parts_.bad.get(), parts_.load_hook, parts_.layout.get()},
      options);
  if (options.service.metrics.empty()) return {};
  ISOCOST_ASSIGN(const MetricsAddress address, parse_metrics_address(options.service.metrics));
  timeline_ = std::make_unique<Timeline>(parts_.layout.get());
  ISOCOST_ASSIGN(
      metrics_,
      MetricsEndpoint::create(
          address, {{"/metrics", "text/plain; version=0.0.4; charset=utf-8",
                     [this] { return prometheus_text(metrics()); }},
                    {"/status.json", "application/json", [this] { return status_json(metrics()); }},
                    {"/timeline.svg", "image/svg+xml", [this] { return timeline_->svg(); }}}));
  if (!address.loopback) {
    log(parts_.log, LogLevel::kWarning,
        metrics_->url() +
            " is open to all that reach this host: metrics name no sample, and need "
            "no key");
  }
  return {};
}

tl::expected<Welcome, Refusal> NodeImpl::admit(const JoinRequest& request) {
  Hello hello = request.hello;
  compare_hardware(hello);
  if (steps_.continues(hello.start.cursor, hello.start.step)) {
    hello.start.cursor = steps_.fingerprint();
  }
  tl::expected<JoinDecision, Refusal> verdict;
  {
    const std::lock_guard lock(mutex_);
    verdict = evaluate_join(hello, request.same_client, job_.get(), offer_);
    if (!verdict) return tl::unexpected(verdict.error());
    steps_.offer(hello.start.cost_model_state);
    if (*verdict == JoinDecision::kJoin) return welcome(*job_);
  }
  const auto epochs = static_cast<std::uint64_t>(parts_.options.plan.epochs);
  if (auto refusal = check_start(hello, epochs, parts_.steps(hello.start.epoch)))
    return tl::unexpected(*std::move(refusal));
  // Without the lock: those that are found to have gone are reported meanwhile.
  if (*verdict == JoinDecision::kBeginAgain) {
    if (auto refusal = request.check_rank_is_free()) return tl::unexpected(*std::move(refusal));
  }
  const bool alone = request.is_only_client();
  const std::lock_guard lock(mutex_);
  if (job_ && !alone) {
    const auto now = Clock::now();
    return tl::unexpected(retry_later(hello, *job_, now - job_->disputed_since(now)));
  }
  auto job = new_job(hello, job_ ? job_->id() + 1 : 1, offer_);
  if (!job) return tl::unexpected(Refusal{job.error().code(), job.error().message()});
  job_ = std::make_unique<Job>(*std::move(job));
  changed_.notify_all();
  return welcome(*job_);
}

// A profile of other hardware is a poor start, which correction mends: a warning, and once.
void NodeImpl::compare_hardware(const Hello& hello) {
  const std::string& profiled = parts_.profile.hardware;
  if (hardware_compared_ || profiled.empty() || hello.hardware.empty()) return;
  hardware_compared_ = true;
  if (hello.hardware == profiled.substr(0, kMaxHardwareBytes)) return;
  log(parts_.log, LogLevel::kWarning,
      "profile " + parts_.options.plan.profile.string() + " was measured on " + profiled +
          "; rank " + std::to_string(hello.rank) + " computes on " + hello.hardware +
          ": measure a profile there (docs/model_profile.md), or let correction find the "
          "difference");
}

Welcome NodeImpl::welcome(const Job& job) const {
  Welcome welcome;
  welcome.ranks = job.ranks();
  welcome.job = job.id();
  welcome.start = {steps_.fingerprint(), job.start().epoch, job.start().step, {}};
  welcome.dataset_fingerprint = parts_.dataset->fingerprint();
  welcome.recipe_fingerprint = parts_.recipe.fingerprint();
  welcome.samples_per_epoch = parts_.dataset->size();
  welcome.steps_per_epoch = static_cast<std::uint32_t>(parts_.steps(0));
  welcome.epochs = static_cast<std::uint32_t>(parts_.options.plan.epochs);
  welcome.global_batch_size = static_cast<std::uint32_t>(parts_.options.plan.global_batch_size);
  welcome.microbatches = static_cast<std::uint32_t>(parts_.options.plan.microbatches);
  return welcome;
}

void NodeImpl::on_event(const ServerEvent& event) {
  if (const auto* reported = std::get_if<Reported>(&event)) {
    take_report(reported->rank, reported->report);
    return;
  }
  if (const auto* came = std::get_if<ProfileReceived>(&event)) {
    steps_.offer(*came);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto* joined = std::get_if<ClientJoined>(&event)) {
      job_->join(*joined);
    } else if (const auto* left = std::get_if<ClientLeft>(&event)) {
      if (job_) job_->leave(left->rank);
    } else if (const auto* credit = std::get_if<CreditGranted>(&event)) {
      if (credit->rank < job_->ranks()) job_->queue().grant(credit->rank, credit->microbatches);
    } else if (const auto* done = std::get_if<Acknowledged>(&event)) {
      if (done->rank < job_->ranks()) job_->queue().acknowledge(done->rank, done->position);
    }
  }
  changed_.notify_all();
}

void NodeImpl::take_report(std::int32_t rank, const Report& report) {
  const std::lock_guard lock(mutex_);
  auto step = job_->queue().find(report.position);
  const auto receiver = static_cast<std::size_t>(rank);
  const StepId id{job_->id(), report.position.epoch, report.position.step};
  const char* why = nullptr;
  if (rank >= job_->ranks() || step == nullptr ||
      report.position.microbatch >= step->plan.microbatches_of(receiver)) {
    why = ": no step that is still held";
  } else if (!measured_.at(id, [&] { return MeasuredModules(step->plan); })
                  .take(receiver, report)) {
    why = ": its seconds were reported before";
  } else {
    const Measurement measurement = measurement_of(step->plan, receiver, report);
    meter_.reported(id, rank, report, step->plan);
    if (timeline_) timeline_->reported(id, rank, report, step->plan);
    if (steps_.model().report(measurement, std::move(step))) return;
    why = ": too many wait to be learned from";
  }
  counts_.reports_rejected += 1;
  const std::uint64_t rejected = static_cast<std::uint64_t>(counts_.reports_rejected);
  if ((rejected & (rejected - 1)) != 0) return;  // named ever more rarely
  log(parts_.log, LogLevel::kWarning,
      name_of(rank) + ": report of epoch " + std::to_string(report.position.epoch) + ", step " +
          std::to_string(report.position.step) + why + "; dropped, as " + std::to_string(rejected) +
          " so far");
}

Result<NodeSummary> NodeImpl::run(const std::stop_token& stop) {
  Status status;
  do {
    ISOCOST_ASSIGN(Run run, wait_for_job(stop));
    const std::uint64_t job = run.job;
    std::stop_source planning;
    run.stop = planning.get_token();
    const std::stop_callback forward(stop, [&planning] { planning.request_stop(); });
    const std::jthread planner([this, &run] { plan_all(run); });
    status = deliver_all(job, stop);
    planning.request_stop();
  } while (!status && status.error().code() == ErrorCode::kCancelled && !stop.stop_requested());
  steps_.keep();
  if (status) {
    wait_until_left(kDrainTimeout);
    return summary();
  }
  server_->fail(status.error());
  if (status.error().code() != ErrorCode::kCancelled) wait_until_told();
  return std::move(status).error();
}

Result<Run> NodeImpl::wait_for_job(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait(lock, stop, [this] { return job_ != nullptr; })) {
    return Error(ErrorCode::kCancelled, "the node was asked to stop");
  }
  Run run{job_->id(), job_->start(), parts_.options, {}};
  if (!parts_.layout) run.options.plan.ranks = job_->ranks();
  return run;
}

void NodeImpl::plan_all(const Run& run) {
  steps_.begin_job();
  const auto epochs = static_cast<std::uint64_t>(parts_.options.plan.epochs);
  Status status;
  std::uint32_t epoch = run.start.epoch;
  for (; status && (epochs == 0 || epoch < epochs); ++epoch) {
    status = plan_epoch(run, epoch, epoch == run.start.epoch ? run.start.step : 0);
  }
  // A job that was saved after its last epoch has nothing left to do, and is told so.
  if (status && epoch == run.start.epoch) {
    EpochEnd end;
    end.epoch = epoch;
    end.last_epoch = true;
    status = push(run, end);
  }
  // To be stopped, or to make way for another job, is no failure.
  if (!status && status.error().code() != ErrorCode::kCancelled) fail(std::move(status).error());
}

Status NodeImpl::plan_epoch(const Run& run, std::uint32_t epoch, std::uint32_t first_step) {
  const std::uint64_t steps = parts_.steps(epoch);
  EpochEnd end;
  end.epoch = epoch;
  end.last_epoch = epoch + 1 == static_cast<std::uint64_t>(parts_.options.plan.epochs);
  const std::uint64_t delivered_before = counts_.delivered;
  for (std::uint64_t step = first_step; step < steps; ++step) {
    ISOCOST_TRY(wait_for_room(run));
    ISOCOST_TRY(plan_one(run, epoch, static_cast<std::uint32_t>(step)));
  }
  end.steps = static_cast<std::uint32_t>(steps);
  end.dropped = parts_.cursor.dropped(epoch);
  end.bad = parts_.bad->count();
  end.delivered = counts_.delivered - delivered_before;
  if (end.delivered == 0 && first_step == 0 && steps > 0) {
    return Error(ErrorCode::kCorrupt,
                 "every sample of epoch " + std::to_string(epoch) + " is bad" +
                     (parts_.options.bad_samples.file.empty()
                          ? std::string()
                          : ": " + parts_.options.bad_samples.file.string() + " lists why"));
  }
  if (end.dropped > 0) {
    log(parts_.log, LogLevel::kInfo,
        "epoch " + std::to_string(epoch) + ": " + std::to_string(end.dropped) +
            " samples of the tail dropped (tail = drop)");
  }
  return push(run, end);
}

Status NodeImpl::wait_for_room(const Run& run) {
  std::unique_lock lock(mutex_);
  const bool room = changed_.wait(lock, run.stop, [&] {
    return !serves(run.job) ||
           job_->queue().ahead() <= static_cast<std::size_t>(parts_.options.service.plan_ahead);
  });
  return room && serves(run.job) ? Status() : superseded();
}

Status NodeImpl::push(const Run& run, std::shared_ptr<SealedStep> step) {
  const std::lock_guard lock(mutex_);
  if (!serves(run.job)) return superseded();
  job_->queue().push(std::move(step));
  changed_.notify_all();
  return {};
}

Status NodeImpl::push(const Run& run, const EpochEnd& end) {
  const std::lock_guard lock(mutex_);
  if (!serves(run.job)) return superseded();
  counts_.epochs += 1;
  counts_.dropped += end.dropped;
  job_->queue().push(end);
  changed_.notify_all();
  return {};
}

Status NodeImpl::plan_one(const Run& run, std::uint32_t epoch, std::uint32_t step) {
  ISOCOST_ASSIGN(std::shared_ptr<SealedStep> sealed,
                 steps_.seal({epoch, step, run.options, *decoder_, run.stop}));
  if (sealed == nullptr) return {};
  count(*sealed);
  return push(run, std::move(sealed));
}

void NodeImpl::count(const SealedStep& step) {
  meter_.planned(step.plan);
  const std::lock_guard lock(mutex_);
  counts_.steps += 1;
  counts_.delivered += step.slots.size();
  std::size_t placed = 0;
  for (const PlannedMicrobatch& bin : step.plan.bins) placed += bin.samples.size();
  counts_.repeats += placed - step.slots.size();
  // Running means over steps.
  const auto n = static_cast<double>(counts_.steps);
  const double gap =
      step.plan.lower_bound_s > 0 ? step.plan.makespan_s / step.plan.lower_bound_s - 1 : 0;
  counts_.plan_seconds_mean += (step.plan_seconds - counts_.plan_seconds_mean) / n;
  counts_.gap_mean += (gap - counts_.gap_mean) / n;
}

// kCancelled where the node is to stop, or to go on with another job.
Status NodeImpl::deliver_all(std::uint64_t job, const std::stop_token& stop) {
  for (;;) {
    DeliveryQueue::Delivery delivery;
    std::uint64_t session = 0;
    {
      std::unique_lock lock(mutex_);
      std::optional<DeliveryQueue::Delivery> next;
      const bool woken =
          changed_.wait_for(lock, stop, parts_.options.service.heartbeat_timeout, [&] {
            if (failure_ || !serves(job) || job_->queue().finished()) return true;
            next = job_->queue().next();
            return next.has_value();
          });
      if (failure_) return *failure_;
      if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "the node was asked to stop");
      if (!woken) {
        fail_blocked_ranks();
        continue;
      }
      if (!serves(job)) return superseded();
      if (!next) return {};
      delivery = *std::move(next);
      session = job_->session(delivery.rank);
    }
    changed_.notify_all();  // something was sent: planning may go on
    ISOCOST_TRY(deliver(delivery, session, stop));
  }
}

std::string NodeImpl::name_of(std::int32_t rank) const {
  if (!parts_.layout) return "rank " + std::to_string(rank);
  const auto receivers = parts_.layout->receivers();
  const auto receiver = static_cast<std::size_t>(rank);
  return receiver < receivers.size() ? "the trainer at " + receivers[receiver].name
                                     : "receiver " + std::to_string(rank);
}

// Planning keeps `plan_ahead` to the rank that is furthest behind. Where nobody holds that rank,
// the others would wait for ever: they are told, and may come back together. With mutex_ held.
void NodeImpl::fail_blocked_ranks() {
  const DeliveryQueue& queue = job_->queue();
  const auto awaited = queue.awaited();
  if (!awaited || queue.ahead() <= static_cast<std::size_t>(parts_.options.service.plan_ahead))
    return;
  const Refusal refusal{
      ErrorCode::kUnavailable,
      name_of(*awaited) + (job_->seen(*awaited) ? " has gone" : " never came") +
          ", and no data can follow without it: start all ranks again from the last state"};
  log(parts_.log, LogLevel::kWarning, refusal.message);
  for (std::int32_t rank = 0; rank < job_->ranks(); ++rank) {
    if (queue.waits(rank)) server_->refuse(rank, refusal, job_->session(rank));
  }
}

Status NodeImpl::deliver(const DeliveryQueue::Delivery& delivery, std::uint64_t session,
                         const std::stop_token& stop) {
  const std::int32_t rank = delivery.rank;
  const auto receiver = static_cast<std::size_t>(rank);
  if (delivery.step == nullptr) {
    server_->epoch_end(rank, delivery.end, session);
    return {};
  }
  SealedStep& step = *delivery.step;
  const PlannedMicrobatch& bin = step.plan.microbatch_of(receiver, delivery.microbatch);
  const Position position{step.epoch, step.step, delivery.microbatch};
  server_->begin(rank, header_of(step, receiver, delivery.microbatch), session);
  meter_.sent(step.plan, receiver, delivery.microbatch);
  for (std::uint32_t i = 0; i < bin.samples.size(); ++i) {
    SampleSlot& slot = step.slots[bin.samples[i].slot];
    if (const auto decoded = slot.decoded) {
      if (slot.readers <= 1) slot.decoded = nullptr;  // a receiver that came back has read twice
      slot.readers -= 1;
      server_->fragment(rank, {position, i, consumed(step.plan, receiver, decoded->tensors)},
                        decoded, session);
      continue;
    }
    ISOCOST_ASSIGN(MemoryBudget::Grant grant, decoder_->admit(slot.id, stop));
    auto shared = std::make_shared<MemoryBudget::Grant>(std::move(grant));
    executor_->submit(
        [this, step = delivery.step, receiver, session, position, i, id = slot.id, shared] {
          decode_and_send(step->plan, receiver, session, {position, i, {}}, id, std::move(*shared));
        });
  }
  return {};
}

void NodeImpl::decode_and_send(const StepPlan& plan, std::size_t receiver, std::uint64_t session,
                               Fragment fragment, SampleId id, MemoryBudget::Grant grant) {
  auto decoded = decoder_->decode(id, std::move(grant));
  if (!decoded) {
    fail(Error(ErrorCode::kCorrupt, "sample changed while training: " + describe(decoded.error())));
    return;
  }
  fragment.tensors = consumed(plan, receiver, (*decoded)->tensors);
  server_->fragment(static_cast<std::int32_t>(receiver), std::move(fragment), *decoded, session);
  const std::lock_guard lock(mutex_);
  counts_.decoded_again += 1;
}

void NodeImpl::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  changed_.notify_all();
}

// A failure in the first step comes before slow trainers have joined; they should learn why, not
// time out.
void NodeImpl::wait_until_told() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kDrainTimeout, [this] { return job_->all_seen(); });
}

bool NodeImpl::wait_until_left(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit,
                           [this] { return !job_ || (job_->all_seen() && job_->all_gone()); });
}

NodeSummary NodeImpl::summary() {
  NodeSummary summary;
  {
    const std::lock_guard lock(mutex_);
    summary = counts_;
  }
  summary.bad = parts_.bad->count();
  summary.replaced = decoder_->replaced();
  summary.memory_peak_bytes = budget_.peak();
  const OnlineModel::Progress cost_model_state = steps_.model().progress();
  summary.measurements = cost_model_state.measurements;
  summary.reports_rejected += cost_model_state.rejected;
  summary.reprofiles = cost_model_state.profiles;
  summary.mape = cost_model_state.mape;
  return summary;
}

NodeMetrics NodeImpl::metrics() {
  NodeMetrics now;
  now.uptime_s = std::chrono::duration<double>(Clock::now() - made_).count();
  now.summary = summary();
  now.training = meter_.totals();
  now.correct = parts_.options.plan.correct;
  now.memory_bytes = budget_.in_use();
  now.memory_budget_bytes = budget_.limit();
  now.waiting_bytes = decoder_->waiting_bytes();
  now.waiting_samples = decoder_->waiting_samples();
  now.decoded_bytes = decoder_->decoded_bytes();
  now.correction = steps_.model().progress().correction;
  if (parts_.layout) {
    for (const Receiver& receiver : parts_.layout->receivers()) now.places.push_back(receiver.name);
  }
  const std::lock_guard lock(mutex_);
  if (job_ == nullptr) return now;
  now.ranks = job_->ranks();
  now.ranks_present = job_->present();
  now.queue = job_->queue().depth();
  return now;
}

}  // namespace

Result<std::unique_ptr<Node>> Node::create(const NodeOptions& options, ProgressSink progress,
                                           const LogSink& log, LoadHook load_hook) {
  ISOCOST_ASSIGN(NodeParts parts,
                 open_node_parts(options, std::move(progress), log, std::move(load_hook)));
  auto node = std::make_unique<NodeImpl>(std::move(parts));
  ISOCOST_TRY(node->start());
  return std::unique_ptr<Node>(std::move(node));
}

}  // namespace isocost
