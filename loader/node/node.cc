#include "loader/node/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/thread_name.h"
#include "costmodel/profile.h"
#include "loader/dataset/sample_name.h"
#include "loader/metrics/endpoint.h"
#include "loader/metrics/prometheus_text.h"
#include "loader/metrics/status_json.h"
#include "loader/node/decoding/read_retry.h"
#include "loader/node/decoding/step_decoder.h"
#include "loader/node/internal/announcer.h"
#include "loader/node/internal/block_budget.h"
#include "loader/node/internal/blocks_of_sources.h"
#include "loader/node/internal/current_job.h"
#include "loader/node/internal/delivery_loop.h"
#include "loader/node/internal/drain_watch.h"
#include "loader/node/internal/join.h"
#include "loader/node/internal/measurement.h"
#include "loader/node/internal/node_parts.h"
#include "loader/node/internal/order_notes.h"
#include "loader/node/internal/planning_loop.h"
#include "loader/node/internal/report_intake.h"
#include "loader/node/internal/saved_state_check.h"
#include "loader/node/internal/stall_watch.h"
#include "loader/node/internal/step_source.h"
#include "loader/node/internal/training_meter.h"
#include "loader/node/internal/unasked_start.h"
#include "loader/node/internal/unreported_job.h"
#include "loader/plan/microbatch_count.h"
#include "loader/plan/served_layout.h"
#include "loader/report/timeline.h"
#include "transport/zmq/server.h"

namespace isocost {
namespace {

// Time that a node that has ended waits for its clients to leave.
constexpr std::chrono::seconds kDrainTimeout{5};

std::vector<StoreTotals> store_totals(const Dataset& dataset) {
  std::vector<StoreTotals> totals;
  for (auto& [name, counts] : dataset.server_counts()) {
    totals.push_back({.name = std::move(name),
                      .requests = counts.sent.requests,
                      .bytes = counts.sent.bytes,
                      .retries = counts.sent.retries,
                      .throttled = counts.sent.throttled,
                      .in_flight = counts.sent.in_flight,
                      .credential_renewals = counts.credential_renewals});
  }
  return totals;
}

CacheTotals cache_totals(const Dataset& dataset) {
  const CacheCounts counts = dataset.cache_counts().value_or(CacheCounts());
  return {.hits = counts.hits,
          .hit_bytes = counts.hit_bytes,
          .misses = counts.misses,
          .kept_bytes = counts.kept_bytes,
          .damaged = counts.damaged,
          .evicted = counts.evicted};
}

Error drained(const Position& at) {
  return {ErrorCode::kDraining, "it is draining, as it was asked to stop: resume at epoch " +
                                    std::to_string(at.epoch) + ", step " + std::to_string(at.step) +
                                    ", from the state saved there"};
}

JoinRequirements requirements_of(const NodeParts& parts, std::uint64_t cursor) {
  return {parts.options, parts.receivers(), parts.layout ? parts.layout->fingerprint() : 0,
          parts.layout && parts.layout->pipelined(), cursor};
}

// Returns null if no metrics are served, which show the timeline.
std::unique_ptr<Timeline> make_timeline(const NodeParts& parts) {
  if (parts.options.service.metrics.empty()) return nullptr;
  return std::make_unique<Timeline>(parts.layout.get());
}

// Returns the names of a mixture's sources; without a mixture none.
std::vector<std::string> names_of_sources(const Dataset& dataset) {
  std::vector<std::string> names;
  for (const DatasetSource& source : dataset.sources()) {
    if (!source.name.empty()) names.push_back(source.name);
  }
  return names;
}

std::string first_weighted(const Dataset& dataset) {
  const WeightedSamples& weighted = dataset.weighted();
  if (weighted.count == 0) return "";
  return sample_name(dataset.shard(weighted.first), dataset.key(weighted.first));
}

// Owns the parts and their threads, and passes values between them and the socket. The headers of
// the parts say what each does.
class NodeImpl final : public Node {
 public:
  explicit NodeImpl(NodeParts parts)
      : budget_(parts.options.decode.memory),
        parts_(std::move(parts)),
        first_weighted_(first_weighted(*parts_.dataset)),
        steps_(parts_),
        job_({requirements_of(parts_, steps_.fingerprint()),
              static_cast<std::size_t>(parts_.options.service.plan_ahead), parts_.clock}),
        timeline_(make_timeline(parts_)),
        reports_({job_, *parts_.model, meter_, timeline_.get(),
                  [this](std::int32_t rank) { return name_of(rank); }, parts_.log,
                  [this](std::int32_t rank, const std::string& text) {
                    server_->notify(rank, {text});
                  }}),
        executor_(make_executor(static_cast<std::size_t>(parts_.options.decode.workers))),
        decoder_(
            {parts_.dataset.get(), &parts_.recipe, parts_.decoder.get(), executor_.get(), &budget_,
             &pool_, parts_.bad.get(), parts_.load_hook, parts_.layout.get(), &retry_,
             &parts_.limits, cached_window_samples(parts_.options.plan, *parts_.dataset)},
            parts_.options.bad_samples.policy, parts_.options.plan.seed),
        block_budget_(decoder_.waiting_budget(), budget_),
        planning_(planning_input(),
                  {static_cast<std::uint64_t>(parts_.options.plan.epochs),
                   parts_.options.bad_samples.file.string()},
                  job_, meter_, parts_.log) {}

  Status start();
  const std::string& endpoint() const override { return server_->endpoint(); }
  const Dataset& dataset() const override { return *parts_.dataset; }
  Result<NodeSummary> run(const std::stop_token& stop, const std::stop_token& drain) override;
  bool wait_until_left(std::chrono::milliseconds limit) override {
    return job_.wait_until_left(limit);
  }
  NodeSummary summary() override;
  NodeMetrics metrics() override;
  std::string timeline_svg() const override { return timeline_ ? timeline_->svg() : ""; }
  std::string metrics_url() const override { return metrics_ ? metrics_->url() : std::string(); }

 private:
  // The steps of `start`.
  Status begin_known_job();
  Status open_socket();
  void warn_of_start() const;
  void make_delivery();
  Status open_metrics();

  Status serve(const std::stop_token& stop, const std::stop_token& drain);
  tl::expected<Welcome, Refusal> answer(const JoinRequest& request);
  tl::expected<std::shared_ptr<const JobOrder>, Refusal> order_for(Hello& hello);
  void note_admission(const Hello& hello, bool same_client, const CurrentJob::Admission& admitted);
  void warn_joining(const Hello& hello, std::optional<std::string> warning);
  void pass_warning(const ClientJoined& joined);
  void compare_hardware(const Hello& hello);
  Welcome welcome(const JobTerms& job) const;
  void on_event(const ClientEvent& event);
  PlanningInput planning_input();
  std::string name_of(std::int32_t rank) const;
  std::string obstacle() const;
  PageText health() const;
  PageText liveness() const;
  PageText readiness() const;

  MemoryBudget budget_;  // of samples, which the job and the cost model among the parts hold
  BufferPool pool_;
  NodeParts parts_;
  Announcer announcer_{parts_.log};
  ReadRetry retry_{{.timeout = parts_.options.decode.io_timeout,
                    .announce = [this](LogLevel level, std::string_view text) {
                      announcer_.announce(level, text);
                    }}};
  const MonotonicTime started_ = parts_.clock();
  const std::string first_weighted_;  // its name, which the socket's thread must not wait for
  StepSource steps_;
  CurrentJob job_;
  TrainingMeter meter_{names_of_sources(*parts_.dataset)};
  const std::unique_ptr<Timeline> timeline_;  // null if no metrics are served
  ReportIntake reports_;
  const std::unique_ptr<Executor> executor_;
  StepDecoder decoder_;
  BlockBudget block_budget_;
  PlanningLoop planning_;
  // Used on the socket's thread only:
  UnreportedJob unreported_;
  bool hardware_compared_ = false;
  std::pair<std::int32_t, std::optional<std::string>> for_joining_;  // a rank, and its warning

  // Made by `start`.
  std::unique_ptr<Server> server_;
  std::optional<Announcer::Audience> audience_;
  std::unique_ptr<DeliveryLoop> delivery_;
  std::unique_ptr<StallWatch> stall_watch_;
  std::unique_ptr<MetricsEndpoint> metrics_;
};

Status NodeImpl::start() {
  ISOCOST_TRY(begin_known_job());
  ISOCOST_TRY(open_socket());
  parts_.bad->remove_earlier_list();
  warn_of_start();
  make_delivery();
  return parts_.options.service.metrics.empty() ? Status() : open_metrics();
}

// Begins planning without waiting for a receiver, if all receivers are known.
Status NodeImpl::begin_known_job() {
  if (parts_.receivers() == 0) return {};
  if (auto job = job_.begin(Hello{}, true, parts_.orders.anew()); !job) {
    return Error(job.error().code, job.error().message);
  }
  return {};
}

Status NodeImpl::open_socket() {
  ServerOptions server = server_options(parts_.options);
  server.rank_name = [this](std::int32_t rank) { return name_of(rank); };
  if (parts_.options.service.shared_memory) {
    server.reserve_block = [this](std::int64_t bytes) { return block_budget_.reserve(bytes); };
  }
  ISOCOST_ASSIGN(server_,
                 Server::create(
                     server, [this](const JoinRequest& request) { return answer(request); },
                     [this](const ClientEvent& event) { on_event(event); }, parts_.log));
  audience_.emplace(announcer_, *server_);
  return {};
}

void NodeImpl::warn_of_start() const {
  const NodeOptions& options = parts_.options;
  warn_of_assumed_profile(options, *options.cost_model.profile, parts_.log);
  for (const std::string& note :
       order_notes(options.plan, *parts_.dataset, *parts_.orders.anew())) {
    log(parts_.log, LogLevel::kInfo, note);
  }
  if (!parts_.layout) return;
  for (const std::string& warning : parts_.layout->warnings()) {
    log(parts_.log, LogLevel::kWarning,
        "layout " + options.plan.layout_file.string() + ": " + warning);
  }
}

void NodeImpl::make_delivery() {
  const ServiceOptions& service = parts_.options.service;
  delivery_ = std::make_unique<DeliveryLoop>(DeliveryLoop::Context{
      job_, *server_, decoder_, meter_, [this](std::int32_t rank) { return name_of(rank); },
      parts_.log, service.heartbeat_timeout});
  stall_watch_ = std::make_unique<StallWatch>(StallWatch::Options{
      service.stall_timeout, [this] { return job_.activity(); }, [this] { return obstacle(); },
      [this](LogLevel level, std::string_view text) { announcer_.announce(level, text); }});
}

Status NodeImpl::open_metrics() {
  ISOCOST_ASSIGN(const MetricsAddress address,
                 parse_metrics_address(parts_.options.service.metrics));
  ISOCOST_ASSIGN(
      metrics_,
      MetricsEndpoint::create(
          address,
          {{"/metrics", "text/plain; version=0.0.4; charset=utf-8",
            [this] { return prometheus_text(metrics()); }},
           {"/status.json", "application/json", [this] { return status_json(metrics()); }},
           {"/profile.json", "application/json", [this] { return parts_.model->profile_json(); }},
           {"/healthz", "text/plain; charset=utf-8", [this] { return health(); }},
           {"/livez", "text/plain; charset=utf-8", [this] { return liveness(); }},
           {"/readyz", "text/plain; charset=utf-8", [this] { return readiness(); }},
           {"/timeline.svg", "image/svg+xml", [this] { return timeline_->svg(); }}}));
  if (!address.loopback) {
    log(parts_.log, LogLevel::kWarning,
        metrics_->url() +
            " can be read by everyone who reaches this host: metrics name no sample, and need "
            "no key");
  }
  return {};
}

tl::expected<Welcome, Refusal> NodeImpl::answer(const JoinRequest& request) {
  Hello hello = request.hello;
  for_joining_ = {};
  compare_hardware(hello);
  const auto order = order_for(hello);
  if (!order) return tl::unexpected(order.error());
  const auto admitted =
      job_.admit({hello, request.same_client, request.alone, request.rank_taken}, *order);
  if (!admitted) return tl::unexpected(admitted.error());
  note_admission(hello, request.same_client, *admitted);
  return welcome(admitted->job);
}

// Takes the state that the client brings, and says where it continues without having asked for it.
void NodeImpl::note_admission(const Hello& hello, bool same_client,
                              const CurrentJob::Admission& admitted) {
  using Kind = CurrentJob::Admission::Kind;
  if (admitted.kind == Kind::kBegun) unreported_.begin_job();
  if (admitted.kind == Kind::kRepeated) {
    warn_joining(hello, warning_of_repeated_step(name_of(hello.rank), admitted.unasked));
  }
  if (admitted.kind != Kind::kJoined) return;
  steps_.receive_state(hello.start.cost_model_state);
  if (same_client || hello.has_start) return;
  warn_joining(hello, warning_of(name_of(hello.rank), admitted.unasked));
}

// Returns the samples of the job that a client asks for, and makes its start one of this order.
tl::expected<std::shared_ptr<const JobOrder>, Refusal> NodeImpl::order_for(Hello& hello) {
  StartPoint& start = hello.start;
  std::shared_ptr<const JobOrder> order = parts_.orders.anew();
  if (hello.has_start && (start.cursor != 0 || !start.mixture.empty())) {
    auto continued = parts_.orders.continued(start);
    if (continued) {
      order = *std::move(continued);
    } else if (start.cursor != 0) {
      return tl::unexpected(refusal_of_state(hello, continued.error()));
    } else {
      log(parts_.log, LogLevel::kWarning,
          client_name(hello) + " accepts other data, and the mixture of its state is left aside: " +
              continued.error().message());
    }
  }
  start.mixture = order->saved;
  if (steps_.continues(start.cursor, start.step)) start.cursor = steps_.fingerprint();
  const bool other = start.cursor != 0 && start.cursor != steps_.fingerprint();
  if (hello.has_start && other && start.state_version == kStateVersion) {
    if (auto why = parts_.orders.other_shuffle(start.cursor)) {
      return tl::unexpected(
          refusal_of_state(hello, {ErrorCode::kInvalidArgument, *std::move(why)}));
    }
  }
  return order;
}

// Logs a warning, and keeps it for the client, to which it is sent when it has joined.
void NodeImpl::warn_joining(const Hello& hello, std::optional<std::string> warning) {
  if (warning) log(parts_.log, LogLevel::kWarning, *warning);
  for_joining_ = {hello.rank, std::move(warning)};
}

// Sends the client that has joined what it is to be warned of.
void NodeImpl::pass_warning(const ClientJoined& joined) {
  const auto [rank, warning] = std::exchange(for_joining_, {});
  if (warning && rank == joined.rank) server_->notify(rank, {*warning}, joined.session);
}

// Logs one warning if the model profile is of other hardware: it is then a poor start, which
// correction improves.
void NodeImpl::compare_hardware(const Hello& hello) {
  const CostProfile& profile = *parts_.options.cost_model.profile;
  const std::string& profiled = profile.hardware;
  if (hardware_compared_ || profiled.empty() || hello.hardware.empty()) return;
  hardware_compared_ = true;
  if (hello.hardware == profiled.substr(0, kMaxHardwareBytes)) return;
  log(parts_.log, LogLevel::kWarning,
      "model profile " + profile.source + " was measured on " + profiled + "; rank " +
          std::to_string(hello.rank) + " computes on " + hello.hardware +
          ": measure a model profile there (docs/model_profile.md), or rely on correction");
}

Welcome NodeImpl::welcome(const JobTerms& job) const {
  Welcome welcome;
  welcome.ranks = job.ranks;
  welcome.job = job.id;
  const JobOrder& order = job.order ? *job.order : *parts_.orders.anew();
  welcome.start = {steps_.fingerprint(), job.start.epoch, job.start.step, {}, order.saved};
  welcome.dataset_fingerprint = parts_.dataset->fingerprint();
  welcome.recipe_fingerprint = parts_.recipe.fingerprint();
  welcome.samples_per_epoch = parts_.dataset->size() - order.cursor.skipped(0);
  welcome.steps_per_epoch = static_cast<std::uint32_t>(order.cursor.steps(0));
  if (order.mixture != nullptr) {
    const auto samples = order.mixture->samples();
    welcome.has_length = samples.has_value();
    welcome.samples_per_epoch = samples.value_or(0);
    if (!samples) welcome.steps_per_epoch = 0;
  }
  welcome.epochs = static_cast<std::uint32_t>(parts_.options.plan.epochs);
  welcome.global_batch_size = static_cast<std::uint32_t>(parts_.options.plan.global_batch_size);
  welcome.microbatches = static_cast<std::uint32_t>(fixed_microbatches(parts_.options.plan));
  const WeightedSamples& weighted = parts_.dataset->weighted();
  welcome.weighted_samples = weighted.count;
  welcome.first_weight = weighted.weight;
  if (weighted.count > 0) {
    welcome.first_weighted = first_weighted_;
  }
  const NodeOptions& options = parts_.options;
  if (options.cost_model.padded.at(static_cast<std::size_t>(CostModule::kLlm)))
    welcome.padded_multiple = static_cast<std::uint32_t>(options.plan.padded_multiple);
  return welcome;
}

void NodeImpl::on_event(const ClientEvent& event) {
  if (const auto* reported = std::get_if<Reported>(&event)) {
    reports_.take(reported->rank, reported->report);
    if (has_seconds(reported->report)) unreported_.reported();
  } else if (const auto* received = std::get_if<ProfileReceived>(&event)) {
    steps_.receive_profile(*received);
  } else if (const auto* joined = std::get_if<ClientJoined>(&event)) {
    job_.join(*joined);
    pass_warning(*joined);
    block_budget_.give_up();  // the request may have been for the client that had the rank
  } else if (const auto* left = std::get_if<ClientLeft>(&event)) {
    job_.leave(left->rank, !left->finished);
    block_budget_.give_up();  // the request may have been for this client
  } else if (const auto* heard = std::get_if<ClientHeard>(&event)) {
    job_.hear(heard->rank);
  } else if (const auto* credit = std::get_if<CreditGranted>(&event)) {
    job_.grant(credit->rank, credit->microbatches);
  } else if (const auto* done = std::get_if<Acknowledged>(&event)) {
    job_.acknowledge(done->rank, done->position);
    if (!parts_.options.cost_model.correct) return;
    if (const auto text = unreported_.acknowledged(job_.delivered_of_job().steps)) {
      log(parts_.log, LogLevel::kInfo, *text);
    }
  }
}

PlanningInput NodeImpl::planning_input() {
  return {.begin_job =
              [this](const JobTerms& job) {
                if (job.cost_model_state) steps_.receive_state(*job.cost_model_state);
                steps_.draw_by(job.order);
                steps_.begin_job(job.ranks);
              },
          .end_job = [this] { decoder_.drop_begun(); },
          .steps = [this](std::uint32_t epoch) { return steps_.order().cursor.steps(epoch); },
          .dropped = [this](std::uint32_t epoch) { return steps_.order().cursor.dropped(epoch); },
          .seal =
              [this](std::uint32_t epoch, std::uint32_t step, const std::stop_token& stop) {
                return steps_.seal({epoch, step, decoder_, stop});
              },
          .bad = [this] { return parts_.bad->count(); },
          .last_bad = [this] { return parts_.bad->last(); }};
}

std::string NodeImpl::name_of(std::int32_t rank) const {
  if (!parts_.layout) return "rank " + std::to_string(rank);
  const auto receivers = parts_.layout->receivers();
  const auto receiver = static_cast<std::size_t>(rank);
  return receiver < receivers.size() ? "the trainer at " + receivers[receiver].name
                                     : "receiver " + std::to_string(rank);
}

// Returns what training waits for, as far as this node knows.
std::string NodeImpl::obstacle() const {
  if (retry_.paused_s() > 0) return "shards cannot be read, or decode workers cannot start";
  constexpr double kLong = 10;  // seconds; decodes rarely take longer
  const double timeout_s =
      std::chrono::duration<double>(parts_.options.service.stall_timeout).count();
  const auto decode = decoder_.oldest_decode();
  if (decode && decode->seconds > std::min(kLong, timeout_s / 2)) {
    return fmt::format(
        "sample {} is still being decoded",
        sample_name(parts_.dataset->shard(decode->id), parts_.dataset->key(decode->id)));
  }
  const auto behind = job_.behind();
  if (behind.empty()) return "the next step is being planned";
  const DeliveryQueue::Behind& first = behind.front();
  const char* does = first.received ? "has not acknowledged" : "has not asked for all of";
  std::string text = fmt::format("{} {} epoch {}, step {}", name_of(first.rank),
                                 first.present ? does : "has no client and lacks", first.step.epoch,
                                 first.step.step);
  // The steps after it were sent to a client that takes microbatches ahead of its loop.
  if (first.present && first.steps_received > 1) {
    text += fmt::format(
        " and has received {} steps: a client that prepares microbatches ahead acknowledges them "
        "by use() and acknowledge()",
        first.steps_received);
  }
  if (behind.size() > 1) text += fmt::format("; nor have {} others", behind.size() - 1);
  return text;
}

PageText NodeImpl::health() const {
  const StallWatch::Stall stall = stall_watch_->stall();
  if (stall.seconds <= 0) return {"ok\n"};
  return {fmt::format("stalled for {:.0f} s: {}\n", stall.seconds, stall.obstacle), false};
}

// A node whose training stands still may be in order, and to start it again would not help. One
// whose socket's thread hangs serves nobody any more.
PageText NodeImpl::liveness() const {
  const auto since = server_->since_last_turn();
  if (since <= parts_.options.service.heartbeat_timeout) return {"ok\n"};
  return {fmt::format("the socket's thread has not run for {:.0f} s\n",
                      std::chrono::duration<double>(since).count()),
          false};
}

PageText NodeImpl::readiness() const {
  if (job_.draining()) return {"draining\n", false};
  if (retry_.paused_s() > 0)
    return {"paused: shards cannot be read, or decode workers cannot start\n", false};
  return {"ready\n"};
}

Result<NodeSummary> NodeImpl::run(const std::stop_token& stop, const std::stop_token& drain) {
  std::stop_source serving;  // samples that are decoded again for sending stop with it
  const std::stop_callback stop_serving(stop, [&serving] { serving.request_stop(); });
  const std::stop_callback end_requests(serving.get_token(),
                                        [this] { parts_.requests.request_stop(); });
  std::optional<DrainWatch> watch;
  const std::stop_callback begin_draining(drain, [&] {
    job_.drain();
    watch.emplace(DrainWatch::Options{.unfinished = [this] { return job_.unfinished(); },
                                      .name = [this](std::int32_t rank) { return name_of(rank); },
                                      .log = parts_.log,
                                      .end = [&serving] { serving.request_stop(); }});
  });
  const Status status = serve(serving.get_token(), drain);
  serving.request_stop();
  steps_.save_correction();
  const bool was_stopped = !status && status.error().code() == ErrorCode::kCancelled;
  const std::optional<Position> resume = job_.drained_at();
  if (resume && (status || was_stopped)) {
    server_->fail(drained(*resume), resume);
  } else if (!status) {
    server_->fail(status.error());
  }
  const bool nobody_came = job_.draining() && !resume;
  if (status || nobody_came) {
    wait_until_left(kDrainTimeout);
    return summary();
  }
  // The first step may fail before slow trainers have joined. Waiting for them lets them learn the
  // reason instead of timing out.
  if (!was_stopped) job_.wait_until_joined(kDrainTimeout);
  return status.error();
}

// Serves one job after the other, until one ends.
Status NodeImpl::serve(const std::stop_token& stop, const std::stop_token& drain) {
  for (;;) {
    ISOCOST_ASSIGN(const JobTerms job, job_.wait_for_job(stop));
    std::stop_source planning;
    const std::stop_callback forward(stop, [&planning] { planning.request_stop(); });
    const std::stop_callback plan_no_more(drain, [&planning] { planning.request_stop(); });
    const std::jthread planner([this, &job, token = planning.get_token()] {
      name_thread("isocost-plan");
      planning_.run(job, token);
    });
    Status status = delivery_->run(job.id, stop);
    planning.request_stop();
    const bool superseded = !status && status.error().code() == ErrorCode::kCancelled &&
                            !stop.stop_requested() && !job_.draining();
    if (!superseded) return status;
  }
}

NodeSummary NodeImpl::summary() {
  NodeSummary summary;
  planning_.add_to(summary);
  const DeliveryCounts delivered = job_.delivered();
  summary.steps_delivered = delivered.steps;
  summary.delivered = delivered.samples;
  const DeliveryCounts of_job = job_.delivered_of_job();
  summary.last_job.steps_delivered = of_job.steps;
  summary.last_job.delivered = of_job.samples;
  summary.decoded_again = delivery_->decoded_again();
  summary.bad = parts_.bad->count();
  summary.replaced = decoder_.replaced();
  summary.memory_peak_bytes = budget_.peak();
  const OnlineModel::Progress progress = parts_.model->progress();
  summary.measurements = progress.measurements;
  summary.measurements_rejected = reports_.dropped() + progress.rejected;
  summary.rank_slowdowns = progress.correction.rank_slowdowns;
  summary.reprofiles = progress.profiles;
  const Reprofiling::Counts reprofiles = steps_.reprofiles();
  summary.reprofiles_kept = reprofiles.kept;
  summary.reprofile_seconds = reprofiles.seconds;
  summary.prediction_error_ratio = progress.prediction_error_ratio;
  return summary;
}

NodeMetrics NodeImpl::metrics() {
  NodeMetrics now;
  now.uptime_s = seconds_between(started_, parts_.clock());
  now.summary = summary();
  now.training = meter_.totals();
  now.correct = parts_.options.cost_model.correct;
  now.memory_bytes = budget_.in_use();
  now.memory_budget_bytes = budget_.limit();
  now.waiting_bytes = decoder_.waiting_bytes();
  now.waiting_samples = decoder_.waiting_samples();
  now.decoded_bytes = decoder_.decoded_bytes();
  now.paused_s = retry_.paused_s();
  now.stores = store_totals(*parts_.dataset);
  now.cache = cache_totals(*parts_.dataset);
  const StallWatch::Stall stall = stall_watch_->stall();
  now.stalled_s = stall.seconds;
  now.microbatches_shared = server_->microbatches_shared();
  now.correction = parts_.model->progress().correction;
  now.layout_gain = steps_.layout_gain().value_or(now.layout_gain);
  if (parts_.layout) {
    for (const Receiver& receiver : parts_.layout->receivers()) now.places.push_back(receiver.name);
  }
  const CurrentJob::Depth depth = job_.depth();
  now.ranks = depth.ranks;
  now.ranks_present = depth.present;
  now.queue = depth.queue;
  return now;
}

}  // namespace

Result<std::unique_ptr<Node>> Node::create(const NodeOptions& options, ProgressSink progress,
                                           const LogSink& log, LoadHook load_hook,
                                           const std::stop_token& stop) {
  ISOCOST_ASSIGN(NodeParts parts,
                 open_node_parts(options, std::move(progress), log, std::move(load_hook), stop));
  auto node = std::make_unique<NodeImpl>(std::move(parts));
  ISOCOST_TRY(node->start());
  return std::unique_ptr<Node>(std::move(node));
}

}  // namespace isocost
