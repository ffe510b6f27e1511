#include "loader/cli/emulated_trainer.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <numbers>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "balancer/place.h"
#include "balancer/sample_prices.h"
#include "base/fingerprint.h"
#include "base/random.h"
#include "costmodel/cost_model.h"
#include "trainer_adapter/client.h"

namespace isocost::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

Clock::duration length(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

double seconds_between(Time from, Time to) {
  return std::chrono::duration<double>(to - from).count();
}

/// The first failure, and the stop that it causes everywhere.
class Fault {
 public:
  explicit Fault(const std::stop_token& outer)
      : forward_(outer, [this] { source_.request_stop(); }) {}

  void raise(Error error) {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::move(error);
    }
    source_.request_stop();
  }
  std::stop_token token() const { return source_.get_token(); }
  std::optional<Error> error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Error> error_;
  std::stop_source source_;
  std::stop_callback<std::function<void()>> forward_;
};

/// Lets `size` threads meet again and again; the last one to come runs `at_meeting` first.
class Meeting {
 public:
  Meeting(std::size_t size, std::function<void()> at_meeting)
      : size_(size), at_meeting_(std::move(at_meeting)) {}

  bool join(const std::stop_token& stop, Time deadline) {
    std::unique_lock lock(mutex_);
    const std::uint64_t turn = turn_;
    if (++waiting_ == size_) {
      waiting_ = 0;
      ++turn_;
      if (at_meeting_) at_meeting_();
      met_.notify_all();
      return true;
    }
    return met_.wait_until(lock, stop, deadline, [&] { return turn_ != turn; });
  }

 private:
  std::size_t size_;
  std::function<void()> at_meeting_;
  std::mutex mutex_;
  std::condition_variable_any met_;
  std::size_t waiting_ = 0;
  std::uint64_t turn_ = 0;
};

/// What the stages of one rank tell each other in a step: which passes ended, and when.
class Line {
 public:
  Line(std::size_t stages, std::size_t microbatches)
      : microbatches_(microbatches), ended_(2 * stages * microbatches), loads_(microbatches) {}

  void clear() {
    const std::lock_guard lock(mutex_);
    std::fill(ended_.begin(), ended_.end(), std::nullopt);
  }

  void set_load(std::size_t m, const PipelineLoad& load) {
    const std::lock_guard lock(mutex_);
    loads_[m] = load;
  }
  PipelineLoad load(std::size_t m) const {
    const std::lock_guard lock(mutex_);
    return loads_[m];
  }

  void end(std::size_t stage, std::size_t m, PassKind kind, Time when) {
    {
      const std::lock_guard lock(mutex_);
      ended_[index(stage, m, kind)] = when;
    }
    changed_.notify_all();
  }

  std::optional<Time> wait_for(std::size_t stage, std::size_t m, PassKind kind,
                               const std::stop_token& stop, Time deadline) {
    std::unique_lock lock(mutex_);
    const auto& slot = ended_[index(stage, m, kind)];
    if (!changed_.wait_until(lock, stop, deadline, [&] { return slot.has_value(); })) return {};
    return slot;
  }

 private:
  std::size_t index(std::size_t stage, std::size_t m, PassKind kind) const {
    return 2 * (stage * microbatches_ + m) + (kind == PassKind::kForward ? 0 : 1);
  }

  std::size_t microbatches_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::optional<Time>> ended_;
  std::vector<PipelineLoad> loads_;
};

/// All ranks and stages of a job.
class Fleet {
 public:
  Fleet(const EmulatedJob& job, const std::stop_token& stop)
      : job_(job),
        prices_(job.job.profile),
        ranks_(job.model.llm.replicas),
        encoder_stages_(job.model.encoder.stages),
        stages_(encoder_stages_ + job.model.llm.stages),
        fault_(stop),
        start_(ranks_ * stages_, [this] { begin_step(); }),
        end_(ranks_ * stages_, [this] { end_step(); }),
        waits_(ranks_ * stages_, 0.0) {
    for (std::size_t s = 0; s < stages_; ++s) {
      reductions_.push_back(std::make_unique<Meeting>(ranks_, nullptr));
    }
    for (std::size_t r = 0; r < ranks_; ++r) {
      lines_.push_back(std::make_unique<Line>(stages_, job.model.microbatches));
    }
  }

  Result<std::vector<EmulatedStep>> run() {
    for (std::size_t s = 0; s < stages_; ++s) {
      ISOCOST_ASSIGN(programs_.emplace_back(),
                     stage_program(job_.model.schedule, stages_, s, 1, job_.model.microbatches, s));
    }
    {
      std::vector<std::jthread> threads;
      for (std::size_t r = 0; r < ranks_; ++r) {
        for (std::size_t s = 0; s < stages_; ++s) {
          threads.emplace_back([this, r, s] { run_thread(r, s); });
        }
      }
    }
    if (const auto error = fault_.error()) return *error;
    if (steps_.size() < job_.steps) return Error(ErrorCode::kCancelled, "stopped");
    return std::move(steps_);
  }

 private:
  Time deadline() const { return Clock::now() + job_.timeout; }
  bool is_encoder(std::size_t stage) const { return stage < encoder_stages_; }

  // A stage of a rank, in one step.
  struct Where {
    std::size_t rank;
    std::size_t stage;
    std::size_t step;
  };
  // What it was sent of a microbatch, and what that took it.
  struct Slot {
    Report report;
    PipelineLoad load;
    double seconds = 0;
    double forward_s = 0;  // of these
  };

  void run_thread(std::size_t rank, std::size_t stage) {
    const Status status = train(rank, stage);
    if (!status) fault_.raise(status.error());
  }

  Status train(std::size_t rank, std::size_t stage) {
    ISOCOST_ASSIGN(const std::size_t seat, seat_of(job_.layout, place_of(rank, stage)));
    ClientOptions options;
    options.endpoint = job_.endpoint;
    options.rank = static_cast<std::int32_t>(seat);
    options.world_size = static_cast<std::int32_t>(seats(job_.layout));
    options.layout = job_.layout.fingerprint();
    ISOCOST_ASSIGN(const std::unique_ptr<Client> client, Client::connect(options));
    Status status;
    for (std::size_t step = 0; status && step < job_.warm_up + job_.steps; ++step) {
      status = run_step({rank, stage, step}, *client);
    }
    client->close();
    return status;
  }

  Place place_of(std::size_t rank, std::size_t stage) const {
    if (is_encoder(stage)) return {LayoutModule::kEncoder, rank, stage, 0};
    return {LayoutModule::kLlm, rank, stage - encoder_stages_, 0};
  }

  Status run_step(const Where& where, Client& client) {
    if (where.stage == 0) lines_[where.rank]->clear();
    ISOCOST_TRY(meet(start_));
    std::vector<Slot> slots(job_.model.microbatches);
    for (const Pass& pass : programs_[where.stage]) {
      if (pass.kind == PassKind::kForward) {
        ISOCOST_TRY(receive(where, pass.slot, client, slots[pass.slot]));
      }
      ISOCOST_TRY(run_pass(where, pass, slots[pass.slot]));
    }
    ISOCOST_TRY(meet(*reductions_[where.stage]));
    const double reduce =
        is_encoder(where.stage) ? job_.model.encoder.reduce_s : job_.model.llm.reduce_s;
    std::this_thread::sleep_for(length(reduce * job_.time_scale));
    ISOCOST_TRY(meet(end_));
    for (const Slot& slot : slots) ISOCOST_TRY(send_report(slot, client));
    return {};
  }

  Status meet(Meeting& meeting) {
    if (meeting.join(fault_.token(), deadline())) return {};
    return stopped("another stage");
  }

  Error stopped(const char* what) const {
    if (fault_.token().stop_requested()) return {ErrorCode::kCancelled, "stopped"};
    return {ErrorCode::kDeadlineExceeded,
            std::string("emulated trainer: waited too long for ") + what};
  }

  // Waits for the pass's input, waits the pass out, and tells the neighbours.
  Status run_pass(const Where& where, const Pass& pass, Slot& slot) {
    const std::size_t stage = where.stage;
    Line& line = *lines_[where.rank];
    const bool forward = pass.kind == PassKind::kForward;
    const bool at_edge = forward ? stage == 0 : stage + 1 == stages_;
    if (pass.kind != PassKind::kWeights && !at_edge) {
      const std::size_t from = forward ? stage - 1 : stage + 1;
      const auto ended = line.wait_for(from, pass.slot, pass.kind, fault_.token(), deadline());
      if (!ended) return stopped("a microbatch");
      // By the LLM's first stage, which both of them have heard of by now.
      const bool between = from != stage && is_encoder(from) != is_encoder(stage);
      const PipelineLoad load = between ? line.load(pass.slot) : slot.load;
      const double delay = transfer_seconds(std::min(from, stage), load);
      std::this_thread::sleep_until(*ended + length(delay * job_.time_scale));
    }
    const Time started = Clock::now();
    std::this_thread::sleep_until(
        started + length(pass_seconds(stage, pass.kind, slot.load) * job_.time_scale));
    const Time now = Clock::now();
    slot.seconds += seconds_between(started, now);
    if (forward) slot.forward_s = slot.seconds;
    if (pass.kind != PassKind::kWeights) line.end(stage, pass.slot, pass.kind, now);
    return {};
  }

  Status receive(const Where& where, std::size_t index, Client& client, Slot& slot) {
    ISOCOST_ASSIGN(auto next, client.next(fault_.token()));
    if (!next) {  // the end of an epoch lies between two steps
      ISOCOST_ASSIGN(next, client.next(fault_.token()));
    }
    if (!next) return Error(ErrorCode::kUnavailable, "the node ran out of microbatches");
    const MicrobatchHeader& header = next->header;
    if (header.microbatches != job_.model.microbatches || header.position.microbatch != index) {
      return Error(ErrorCode::kInvalidArgument,
                   "the node delivers " + std::to_string(header.microbatches) +
                       " microbatches a step, not " + std::to_string(job_.model.microbatches));
    }
    waits_[where.rank * stages_ + where.stage] +=
        std::chrono::duration<double>(next->waited).count();
    const PipelineLoad load = spread_load(job_.job, job_.layout, prices_.of(header.load));
    slot.load = disturbed(where, index, load);
    slot.report = {header.position, header.predicted_seconds};
    if (where.stage == encoder_stages_) lines_[where.rank]->set_load(index, slot.load);
    return {};
  }

  // All stages of a rank find the same.
  PipelineLoad disturbed(const Where& where, std::size_t microbatch, PipelineLoad load) const {
    const EmulatedDisturbance& by = job_.disturbance;
    const double slow = where.rank == by.slow_rank ? by.slow.at(where.step) : 1;
    Fingerprint seed;
    for (const std::size_t part : {by.seed, where.rank, where.step, microbatch}) seed.add(part);
    Random random(seed.value());
    constexpr double kLeast = 0.01;
    for (auto& [seconds, change] :
         {std::pair{&load.encoder_s, &by.encoder}, {&load.llm_s, &by.llm}}) {
      const double noise = std::max(kLeast, 1 + by.noise * normal(random));
      *seconds *= slow * change->at(where.step) * noise;
    }
    return load;
  }

  // Box and Muller (1958).
  static double normal(Random& random) {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    return radius * std::cos(2 * std::numbers::pi * random.uniform());
  }

  // The node hears what the stage took, in the parts that it predicted of its modules.
  static Status send_report(const Slot& slot, Client& client) {
    const auto& predicted = slot.report.seconds;
    const double sum = std::accumulate(predicted.begin(), predicted.end(), 0.0);
    Report report = slot.report;
    for (double& seconds : report.seconds) {
      seconds = sum > 0 && seconds > 0 ? slot.seconds * seconds / sum : kNotMeasured;
    }
    if (sum > 0) report.forward_s = std::min(slot.forward_s, slot.seconds);
    return client.report(report);
  }

  double pass_seconds(std::size_t stage, PassKind kind, const PipelineLoad& load) const {
    const bool encoder = is_encoder(stage);
    std::vector<StagePass> passes(encoder ? encoder_stages_ : job_.model.llm.stages);
    (encoder ? encoder_passes : llm_passes)(job_.model, load, passes);
    const StagePass& pass = passes[encoder ? stage : stage - encoder_stages_];
    if (kind == PassKind::kForward) return pass.forward_s;
    if (kind == PassKind::kWeights) return pass.weights_s;
    return job_.model.schedule == Schedule::kZbH1 ? pass.backward_s
                                                  : pass.backward_s + pass.weights_s;
  }

  // From `stage` to the next one, or back.
  double transfer_seconds(std::size_t stage, const PipelineLoad& load) const {
    const PipelineModel& model = job_.model;
    double bytes = load.llm_units * model.llm.output_bytes_per_unit;
    if (stage + 1 < encoder_stages_)
      bytes = load.encoder_units * model.encoder.output_bytes_per_unit;
    if (stage + 1 == encoder_stages_) bytes = load.llm_units * model.feed_bytes_per_llm_unit;
    return model.link.seconds(static_cast<std::int64_t>(bytes));
  }

  // Both run while every other thread waits.
  void begin_step() {
    std::fill(waits_.begin(), waits_.end(), 0.0);
    step_started_ = Clock::now();
  }

  void end_step() {
    if (++finished_ <= job_.warm_up) return;
    EmulatedStep step;
    step.seconds = seconds_between(step_started_, Clock::now());
    for (const double wait : waits_) {
      step.data_wait_s += wait / static_cast<double>(waits_.size());
    }
    for (std::size_t r = 0; r < ranks_; ++r) {
      for (std::size_t m = 0; m < job_.model.microbatches; ++m) {
        step.loads.push_back(lines_[r]->load(m));
      }
    }
    steps_.push_back(std::move(step));
  }

  const EmulatedJob& job_;
  const SamplePrices prices_;
  std::size_t ranks_;
  std::size_t encoder_stages_;
  std::size_t stages_;
  Fault fault_;
  Meeting start_;
  Meeting end_;
  std::vector<std::unique_ptr<Meeting>> reductions_;  // a stage each
  std::vector<std::unique_ptr<Line>> lines_;          // a rank each
  std::vector<std::vector<Pass>> programs_;           // a stage each
  std::vector<double> waits_;                         // [ranks × stages], read between meetings
  Time step_started_;
  std::size_t finished_ = 0;
  std::vector<EmulatedStep> steps_;
};

}  // namespace

Result<std::vector<EmulatedStep>> emulate_trainers(const EmulatedJob& job,
                                                   const std::stop_token& stop) {
  ISOCOST_TRY(job.model.validate());
  if (job.model.encoder.stages > 0 && job.model.encoder.replicas != job.model.llm.replicas) {
    return Error(ErrorCode::kInvalidArgument,
                 "emulated trainers have as many encoder as LLM replicas");
  }
  return Fleet(job, stop).run();
}

}  // namespace isocost::cli
