#include "loader/node.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "loader/bad_samples.h"
#include "loader/cursor.h"
#include "loader/delivery_queue.h"
#include "loader/planner.h"
#include "loader/step_decoder.h"
#include "transport/server.h"

namespace isocost {
namespace {

using Clock = std::chrono::steady_clock;

// How long a node that is done waits for its clients' goodbyes.
constexpr std::chrono::seconds kFarewell{5};

CursorOptions cursor_options(const NodeOptions& options, std::uint64_t size) {
  CursorOptions cursor;
  cursor.seed = options.seed;
  cursor.size = size;
  cursor.global_batch_size = static_cast<std::uint64_t>(options.global_batch);
  cursor.tail = options.tail;
  cursor.shuffle = options.shuffle;
  cursor.epochs = static_cast<std::uint64_t>(options.epochs);
  return cursor;
}

// The microbatch's tensors: those of its samples, rows added up, in the order of first appearance.
std::vector<TensorSpec> combined_specs(const SealedStep& step, const PlannedMicrobatch& place) {
  std::vector<TensorSpec> specs;
  for (const PlannedSample& sample : place.samples) {
    for (const TensorSpec& spec : step.slots[sample.slot].specs) {
      const auto found = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& other) {
        return other.name == spec.name;
      });
      if (found == specs.end()) {
        specs.push_back(spec);
      } else {
        found->shape.front() += spec.shape.front();
      }
    }
  }
  return specs;
}

std::uint32_t rows_of(const SampleSlot& slot, const std::string& tensor) {
  for (const TensorSpec& spec : slot.specs) {
    if (spec.name == tensor) return static_cast<std::uint32_t>(spec.shape.front());
  }
  return 0;
}

MicrobatchHeader header_of(const SealedStep& step, std::int32_t rank, std::uint32_t microbatch) {
  const PlannedMicrobatch& place = step.plan.place(rank, microbatch);
  MicrobatchHeader header;
  header.position = {step.epoch, step.step, microbatch};
  header.microbatches = step.plan.microbatches;
  header.global_label_tokens = step.plan.global_label_tokens;
  header.plan_hash = step.plan.hash;
  header.predicted_seconds = place.predicted;
  header.load = place.load;
  for (const PlannedSample& sample : place.samples) {
    const SampleSlot& slot = step.slots[sample.slot];
    header.samples.push_back(
        {slot.id, sample.weight, static_cast<std::uint32_t>(slot.load.label_tokens)});
  }
  header.tensors = combined_specs(step, place);
  for (const PlannedSample& sample : place.samples) {
    for (const TensorSpec& whole : header.tensors) {
      header.rows.push_back(rows_of(step.slots[sample.slot], whole.name));
    }
  }
  return header;
}

struct Parts {
  NodeOptions options;
  LogSink log;
  std::unique_ptr<Dataset> dataset;
  Recipe recipe;
  CostModel model;
  Cursor cursor;
  std::unique_ptr<BadSampleList> bad;
};

class NodeImpl final : public Node {
 public:
  explicit NodeImpl(Parts parts)
      : parts_(std::move(parts)),
        budget_(parts_.options.memory),
        queue_(static_cast<std::int32_t>(parts_.options.ranks)),
        present_(static_cast<std::size_t>(parts_.options.ranks), false),
        seen_(present_) {}

  Status start();
  const std::string& endpoint() const override { return server_->endpoint(); }
  const Dataset& dataset() const override { return *parts_.dataset; }
  Result<NodeSummary> run(const std::stop_token& stop) override;

 private:
  Welcome welcome() const;
  void on_event(const ServerEvent& event);
  void take_report(std::int32_t rank, const Report& report);

  void plan_all(const std::stop_token& stop);
  Status plan_epoch(std::uint32_t epoch, const std::stop_token& stop);
  Status plan_one(std::uint32_t epoch, std::uint32_t step, std::vector<SampleId> ids,
                  const std::stop_token& stop);
  Status wait_for_room(const std::stop_token& stop);
  void count(const SealedStep& step, double plan_seconds);

  Status deliver_all(const std::stop_token& stop);
  Status deliver(const DeliveryQueue::Delivery& delivery, const std::stop_token& stop);
  void decode_and_send(std::int32_t rank, const Position& position, std::uint32_t index,
                       SampleId id, MemoryBudget::Grant grant);
  void fail(Error error);
  void wait_until_told();
  void wait_for_farewells();
  NodeSummary summary();

  Parts parts_;
  BufferPool pool_;
  MemoryBudget budget_;

  std::mutex mutex_;  // guards all down to failure_
  std::condition_variable_any changed_;
  DeliveryQueue queue_;
  std::vector<bool> present_;
  std::vector<bool> seen_;  // ever joined, or told of the failure
  NodeSummary counts_;
  std::optional<Error> failure_;

  std::mutex model_mutex_;  // guards parts_.model; taken alone

  // Destroyed in reverse: workers first, since they send; then the socket, which lets go of what it
  // holds.
  std::unique_ptr<Server> server_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<StepDecoder> decoder_;
};

Status NodeImpl::start() {
  const NodeOptions& options = parts_.options;
  ServerOptions server;
  server.bind = options.bind;
  server.insecure = options.insecure;
  server.curve_secret_key_file = options.curve_key;
  server.curve_allowed_clients_file = options.curve_clients;
  server.timeout = options.timeout;
  server.heartbeat = std::min(server.heartbeat, options.timeout / 4);
  server.welcome = welcome();
  ISOCOST_ASSIGN(
      server_,
      Server::create(server, [this](const ServerEvent& event) { on_event(event); }, parts_.log));
  executor_ = make_executor(static_cast<std::size_t>(options.workers));
  decoder_ = std::make_unique<StepDecoder>(
      StepDecoder::Context{parts_.dataset.get(), &parts_.recipe, executor_.get(), &budget_, &pool_,
                           parts_.bad.get()},
      options);
  return {};
}

Welcome NodeImpl::welcome() const {
  Welcome welcome;
  welcome.ranks = static_cast<std::int32_t>(parts_.options.ranks);
  welcome.dataset_fingerprint = parts_.dataset->fingerprint();
  welcome.recipe_fingerprint = parts_.recipe.fingerprint();
  welcome.samples_per_epoch = parts_.dataset->size();
  welcome.steps_per_epoch = static_cast<std::uint32_t>(parts_.cursor.steps(0));
  welcome.epochs = static_cast<std::uint32_t>(parts_.options.epochs);
  welcome.heartbeat_ms =
      static_cast<std::uint32_t>(std::min<std::int64_t>(1000, parts_.options.timeout.count() / 4));
  welcome.timeout_ms = static_cast<std::uint32_t>(parts_.options.timeout.count());
  return welcome;
}

void NodeImpl::on_event(const ServerEvent& event) {
  if (const auto* reported = std::get_if<Reported>(&event)) {
    take_report(reported->rank, reported->report);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto* joined = std::get_if<ClientJoined>(&event)) {
      queue_.join(joined->rank, joined->received);
      present_.at(static_cast<std::size_t>(joined->rank)) = true;
      seen_.at(static_cast<std::size_t>(joined->rank)) = true;
    } else if (const auto* left = std::get_if<ClientLeft>(&event)) {
      queue_.leave(left->rank);
      present_.at(static_cast<std::size_t>(left->rank)) = false;
      seen_.at(static_cast<std::size_t>(left->rank)) = true;
    } else if (const auto* credit = std::get_if<CreditGranted>(&event)) {
      queue_.grant(credit->rank, credit->microbatches);
    } else if (const auto* done = std::get_if<Acknowledged>(&event)) {
      queue_.acknowledge(done->rank, done->position);
    }
  }
  changed_.notify_all();
}

void NodeImpl::take_report(std::int32_t rank, const Report& report) {
  Measurement measurement;
  measurement.seconds = report.seconds;
  {
    const std::lock_guard lock(mutex_);
    const auto step = queue_.find(report.position);
    if (step == nullptr || report.position.microbatch >= step->plan.microbatches) {
      counts_.reports_rejected += 1;  // of a step that every rank has left behind
      return;
    }
    measurement.load = step->plan.place(rank, report.position.microbatch).load;
  }
  const std::lock_guard lock(model_mutex_);
  // A measurement that the model refuses is counted there.
  static_cast<void>(parts_.model.observe(measurement));
}

Result<NodeSummary> NodeImpl::run(const std::stop_token& stop) {
  Status status;
  {
    std::jthread planner([this](const std::stop_token& own) { plan_all(own); });
    const std::stop_callback forward(stop, [&planner] { planner.request_stop(); });
    status = deliver_all(stop);
    planner.request_stop();
  }
  if (status) {
    wait_for_farewells();
    return summary();
  }
  server_->fail(status.error());
  if (status.error().code() != ErrorCode::kCancelled) wait_until_told();
  return std::move(status).error();
}

void NodeImpl::plan_all(const std::stop_token& stop) {
  for (std::int64_t epoch = 0; epoch < parts_.options.epochs; ++epoch) {
    if (auto status = plan_epoch(static_cast<std::uint32_t>(epoch), stop); !status) {
      fail(std::move(status).error());
      return;
    }
  }
}

Status NodeImpl::plan_epoch(std::uint32_t epoch, const std::stop_token& stop) {
  std::uint64_t steps = parts_.cursor.steps(epoch);
  if (parts_.options.steps > 0) {
    steps = std::min(steps, static_cast<std::uint64_t>(parts_.options.steps));
  }
  EpochEnd end;
  end.epoch = epoch;
  end.last_epoch = epoch + 1 == static_cast<std::uint64_t>(parts_.options.epochs);
  const std::uint64_t delivered_before = counts_.delivered;
  for (std::uint64_t step = 0; step < steps; ++step) {
    ISOCOST_TRY(wait_for_room(stop));
    ISOCOST_TRY(
        plan_one(epoch, static_cast<std::uint32_t>(step), parts_.cursor.batch(epoch, step), stop));
  }
  end.steps = static_cast<std::uint32_t>(steps);
  end.dropped = parts_.cursor.dropped(epoch);
  end.bad = parts_.bad->count();
  if (end.dropped > 0) {
    log(parts_.log, LogLevel::kInfo,
        "epoch " + std::to_string(epoch) + ": " + std::to_string(end.dropped) +
            " samples of the tail dropped (tail = drop)");
  }
  const std::lock_guard lock(mutex_);
  end.delivered = counts_.delivered - delivered_before;
  counts_.epochs += 1;
  counts_.dropped += end.dropped;
  queue_.push(end);
  changed_.notify_all();
  return {};
}

Status NodeImpl::wait_for_room(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const bool room = changed_.wait(lock, stop, [this] {
    return queue_.ahead() <= static_cast<std::size_t>(parts_.options.plan_ahead);
  });
  if (!room) return Error(ErrorCode::kCancelled, "the node was asked to stop");
  return {};
}

Status NodeImpl::plan_one(std::uint32_t epoch, std::uint32_t step, std::vector<SampleId> ids,
                          const std::stop_token& stop) {
  auto sealed = std::make_shared<SealedStep>();
  sealed->epoch = epoch;
  sealed->step = step;
  ISOCOST_ASSIGN(sealed->slots, decoder_->decode_step(ids, stop));
  if (sealed->slots.empty()) return {};  // every sample was bad, and is listed

  PlanInput input;
  for (const SampleSlot& slot : sealed->slots) {
    input.loads.push_back(slot.load);
    input.weights.push_back(slot.weight);
    input.ids.push_back(slot.id);
  }
  const auto started = Clock::now();
  {
    const std::lock_guard lock(model_mutex_);
    ISOCOST_ASSIGN(sealed->plan, plan_step(input, parts_.model, parts_.options));
  }
  count(*sealed, std::chrono::duration<double>(Clock::now() - started).count());
  const std::lock_guard lock(mutex_);
  queue_.push(std::move(sealed));
  changed_.notify_all();
  return {};
}

void NodeImpl::count(const SealedStep& step, double plan_seconds) {
  const std::lock_guard lock(mutex_);
  counts_.steps += 1;
  counts_.delivered += step.slots.size();
  std::size_t places = 0;
  for (const PlannedMicrobatch& place : step.plan.places) places += place.samples.size();
  counts_.repeats += places - step.slots.size();
  // Running means over steps.
  const auto n = static_cast<double>(counts_.steps);
  const double gap =
      step.plan.lower_bound_s > 0 ? step.plan.makespan_s / step.plan.lower_bound_s - 1 : 0;
  counts_.plan_seconds_mean += (plan_seconds - counts_.plan_seconds_mean) / n;
  counts_.gap_mean += (gap - counts_.gap_mean) / n;
}

Status NodeImpl::deliver_all(const std::stop_token& stop) {
  for (;;) {
    DeliveryQueue::Delivery delivery;
    {
      std::unique_lock lock(mutex_);
      std::optional<DeliveryQueue::Delivery> next;
      const bool woken = changed_.wait(lock, stop, [&] {
        if (failure_ || queue_.finished()) return true;
        next = queue_.next();
        return next.has_value();
      });
      if (failure_) return *failure_;
      if (!woken) return Error(ErrorCode::kCancelled, "the node was asked to stop");
      if (!next) return {};
      delivery = *std::move(next);
    }
    changed_.notify_all();  // something was sent: planning may go on
    ISOCOST_TRY(deliver(delivery, stop));
  }
}

Status NodeImpl::deliver(const DeliveryQueue::Delivery& delivery, const std::stop_token& stop) {
  if (delivery.step == nullptr) {
    server_->epoch_end(delivery.rank, delivery.end);
    return {};
  }
  SealedStep& step = *delivery.step;
  const PlannedMicrobatch& place = step.plan.place(delivery.rank, delivery.microbatch);
  const Position position{step.epoch, step.step, delivery.microbatch};
  server_->begin(delivery.rank, header_of(step, delivery.rank, delivery.microbatch));
  for (std::uint32_t i = 0; i < place.samples.size(); ++i) {
    SampleSlot& slot = step.slots[place.samples[i].slot];
    if (auto decoded = std::exchange(slot.decoded, nullptr)) {
      server_->fragment(delivery.rank, {position, i, decoded->tensors}, decoded);
      continue;
    }
    ISOCOST_ASSIGN(MemoryBudget::Grant grant, decoder_->admit(slot.id, stop));
    auto shared = std::make_shared<MemoryBudget::Grant>(std::move(grant));
    executor_->submit([this, rank = delivery.rank, position, i, id = slot.id, shared] {
      decode_and_send(rank, position, i, id, std::move(*shared));
    });
  }
  return {};
}

void NodeImpl::decode_and_send(std::int32_t rank, const Position& position, std::uint32_t index,
                               SampleId id, MemoryBudget::Grant grant) {
  auto decoded = decoder_->decode(id, std::move(grant));
  if (!decoded) {
    fail(Error(ErrorCode::kCorrupt, "sample changed while training: " + describe(decoded.error())));
    return;
  }
  const auto& tensors = (*decoded)->tensors;
  server_->fragment(rank, {position, index, tensors}, *decoded);
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
  changed_.wait_for(lock, kFarewell, [this] {
    return std::all_of(seen_.begin(), seen_.end(), [](bool seen) { return seen; });
  });
}

void NodeImpl::wait_for_farewells() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kFarewell, [this] {
    return std::none_of(present_.begin(), present_.end(), [](bool here) { return here; });
  });
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
  const std::lock_guard lock(model_mutex_);
  summary.measurements = parts_.model.measurements();
  summary.reports_rejected += parts_.model.rejected();
  summary.mape = parts_.model.mape();
  return summary;
}

Result<CostProfile> starting_profile(const NodeOptions& options) {
  if (options.profile.empty()) return CostProfile::stated_default();
  return CostProfile::load(options.profile);
}

}  // namespace

std::string NodeSummary::to_json() const {
  nlohmann::ordered_json mape_json = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kModules; ++i) {
    const std::string name(module_name(static_cast<Module>(i)));
    if (std::isfinite(mape.at(i))) mape_json[name] = mape.at(i);
  }
  const nlohmann::ordered_json json = {{"epochs", epochs},
                                       {"steps", steps},
                                       {"samples",
                                        {{"delivered", delivered},
                                         {"bad", bad},
                                         {"replaced", replaced},
                                         {"repeats", repeats},
                                         {"dropped", dropped},
                                         {"decoded_again", decoded_again}}},
                                       {"plan_seconds_mean", plan_seconds_mean},
                                       {"gap_mean", gap_mean},
                                       {"memory_peak_bytes", memory_peak_bytes},
                                       {"measurements", measurements},
                                       {"reports_rejected", reports_rejected},
                                       {"mape", mape_json}};
  return json.dump(2);
}

Result<std::unique_ptr<Node>> Node::create(const NodeOptions& options, ProgressSink progress,
                                           const LogSink& log) {
  ISOCOST_TRY(options.validate());
  ISOCOST_ASSIGN(Recipe recipe, Recipe::create(options.recipe));
  ISOCOST_ASSIGN(CostProfile profile, starting_profile(options));

  DatasetOptions dataset_options;
  dataset_options.limits.max_pixels = options.max_pixels;
  dataset_options.index_dir = options.index_dir;
  dataset_options.progress = std::move(progress);
  dataset_options.log = log;
  ISOCOST_ASSIGN(auto dataset, Dataset::open(options.shards, dataset_options));
  ISOCOST_ASSIGN(auto bad, BadSampleList::create(options, dataset->size(), log));
  if (dataset->size() == 0) {
    const std::string first = dataset->bad().empty() ? "" : describe(dataset->bad().front());
    return Error(ErrorCode::kNotFound, options.shards.string() + " holds no usable sample (" +
                                           first + "): isocost check lists why");
  }
  for (const BadSample& sample : dataset->bad()) ISOCOST_TRY(bad->add(sample));

  CostModel::Options model_options;
  model_options.correct = options.correct;
  const std::uint64_t size = dataset->size();
  auto node =
      std::make_unique<NodeImpl>(Parts{options, log, std::move(dataset), std::move(recipe),
                                       CostModel(std::move(profile), model_options),
                                       Cursor(cursor_options(options, size)), std::move(bad)});
  ISOCOST_TRY(node->start());
  return std::unique_ptr<Node>(std::move(node));
}

}  // namespace isocost
