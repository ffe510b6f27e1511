#include "trainer_adapter/internal/hand_out.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "trainer_adapter/internal/position_text.h"
#include "trainer_adapter/trained_steps.h"
#include "transport/zmq/connection.h"

namespace isocost {

namespace {

// Notices a second thread: the loop's order of microbatches, and which of them is in use, have a
// meaning for one thread only.
class OneThread {
 public:
  explicit OneThread(std::atomic<bool>& taken) : taken_(taken), alone_(!taken.exchange(true)) {}
  ~OneThread() {
    if (alone_) taken_ = false;
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  bool alone() const { return alone_; }

 private:
  std::atomic<bool>& taken_;
  const bool alone_;
};

// Microbatches, or steps, that may be reported on after later ones were taken.
constexpr std::size_t kRemembered = 64;

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Returns whether this receiver computes anything: a stage may have nothing to do for samples that
// have a load.
bool has_work(const MicrobatchHeader& header) {
  return std::ranges::any_of(header.predicted_seconds, [](double s) { return s > 0; });
}

}  // namespace

HandOut::HandOut(const ClientOptions& options, Connection& connection)
    : prefetch_(prefetch_limit(options)),
      prepares_ahead_(options.prepares_ahead),
      receives_(options.rank != kNoRank),
      connection_(connection),
      credit_(options) {}

void HandOut::begin_session(std::uint64_t session) {
  const MutexLock lock(mutex_);
  if (acknowledged_) connection_.send(Acknowledgement{*acknowledged_});
  credit_.begin_session(session);
  grant_credit();
}

void HandOut::end_session() {
  const MutexLock lock(mutex_);
  credit_.end_session();
}

bool HandOut::add(Microbatch microbatch) {
  {
    const MutexLock lock(mutex_);
    if (failure_) return false;
    microbatches_ready_ += 1;
    ready_.emplace_back(std::move(microbatch));
  }
  changed_.notify_all();  // without the mutex, which the trainer needs to continue
  const MutexLock lock(mutex_);
  credit_.spend();
  grant_credit();
  return true;
}

bool HandOut::add(const EpochEnd& end) {
  const MutexLock lock(mutex_);
  if (failure_) return false;  // the epoch is incomplete
  last_epoch_ended_ = end.last_epoch;
  ready_.emplace_back(end);
  changed_.notify_all();
  return true;
}

void HandOut::return_credit() {
  const MutexLock lock(mutex_);
  credit_.spend();
  grant_credit();
}

void HandOut::fail(Error error, const std::optional<Position>& resume_point) {
  const MutexLock lock(mutex_);
  if (!failure_) {
    failure_ = std::move(error);
    resume_point_ = resume_point;
  }
  changed_.notify_all();
}

std::optional<Position> HandOut::resume_point() const {
  const MutexLock lock(mutex_);
  return resume_point_;
}

void HandOut::recover() {
  const MutexLock lock(mutex_);
  failure_.reset();
}

bool HandOut::is_over() const {
  const MutexLock lock(mutex_);
  return last_epoch_ended_ || failure_.has_value();
}

Result<std::optional<Microbatch>> HandOut::next(const std::stop_token& stop) {
  const auto asked = Clock::now();
  const OneThread thread(asked_for_);
  if (!thread.alone()) {
    return Error(ErrorCode::kInvalidArgument,
                 "next: another thread waits for a microbatch of this client. Take microbatches on "
                 "one thread, or connect a client for each rank");
  }
  if (!receives_) {
    return Error(ErrorCode::kInvalidArgument,
                 "next: this client has no rank, and receives nothing: connect with one");
  }
  const MutexLock lock(mutex_);
  begin_wait();
  const bool woken =
      changed_.wait(mutex_, stop, [this]() ISOCOST_REQUIRES(mutex_) { return is_ready(); });
  end_wait(asked);
  if (closed_) return Error(ErrorCode::kCancelled, "the client is closed");
  if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "next was asked to stop");
  if (!ready_.empty()) {
    auto microbatch = take_first(asked);
    if (microbatch && !prepares_ahead_) begin_use(microbatch->header.position);
    return microbatch;
  }
  if (failure_) return *failure_;
  if (!woken) return Error(ErrorCode::kCancelled, "stopped while waiting for a microbatch");
  return std::optional<Microbatch>();
}

bool HandOut::wait(std::chrono::milliseconds limit) {
  const auto asked = Clock::now();
  const OneThread thread(asked_for_);
  if (!thread.alone()) return true;  // `next` reports why
  const MutexLock lock(mutex_);
  begin_wait();
  const bool ready =
      changed_.wait_for(mutex_, limit, [this]() ISOCOST_REQUIRES(mutex_) { return is_ready(); });
  end_wait(asked);
  return ready;
}

void HandOut::use(const Position& position, std::chrono::nanoseconds waited) {
  const MutexLock lock(mutex_);
  if (!closed_) end_use();
  begin_use(position);
  data_wait_ += waited;
}

void HandOut::acknowledge() {
  const MutexLock lock(mutex_);
  if (!closed_) end_use();
}

Status HandOut::trained(const Position& position) {
  const MutexLock lock(mutex_);
  ISOCOST_TRY(check_taken("trained", position));
  note_trained(position);
  return {};
}

void HandOut::revoke(const Position& position) {
  const MutexLock lock(mutex_);
  if (in_use_ == position) in_use_.reset();
  if (trained_ == position) trained_ = trained_before_;
}

Status HandOut::send(Report report) {
  const MutexLock lock(mutex_);
  if (closed_) {
    return Error(ErrorCode::kCancelled, "report: the client is closed. Report before close()");
  }
  ISOCOST_TRY(check_taken("report", report.position));
  if (is_wanted(report.position)) {
    ISOCOST_TRY(check_measured(report));
    // A caller that says how long measuring took counts its reports, too.
    if (report.measuring_s == kNotMeasured) report.measuring_s = seconds_of(reporting_);
    const auto started = Clock::now();
    send_now(report);
    reporting_ = Clock::now() - started;
  } else if (std::ranges::find(unwanted_, report.position) != unwanted_.end()) {
    send_now(Report{.position = report.position});
  }
  if (!prepares_ahead_) note_trained(report.position);
  return {};
}

// Returns whether the node asks for the seconds of the microbatch's step.
bool HandOut::is_wanted(const Position& position) const {
  return std::ranges::none_of(unwanted_, [&position](const Position& last) {
    return last.epoch == position.epoch && last.step == position.step;
  });
}

void HandOut::send_now(Report report) {
  report.data_wait_s = seconds_of(data_wait_);
  data_wait_ = {};
  connection_.send(report);
}

Status HandOut::check_taken(const char* what, const Position& position) const {
  if (taken_ && position <= *taken_) return {};
  return Error(ErrorCode::kInvalidArgument, std::string(what) + ": " + text_of(position) +
                                                " was not received yet; the last is " +
                                                (taken_ ? text_of(*taken_) : "none") +
                                                ". Report a microbatch that next() returned");
}

Status HandOut::check_measured(const Report& report) const {
  const bool measured =
      std::ranges::any_of(report.seconds, [](double of_module) { return of_module > 0; });
  if (measured || std::ranges::find(without_work_, report.position) != without_work_.end()) {
    return {};
  }
  return Error(
      ErrorCode::kInvalidArgument,
      "report: nothing was measured of " + text_of(report.position) +
          ", which has work. Give the seconds of a module (OwnWork::add after its passes)");
}

Status HandOut::send(ProfileUpdate profile) {
  const MutexLock lock(mutex_);
  if (closed_) {
    return Error(ErrorCode::kCancelled, "send_profile: the client is closed");
  }
  profile.asked = asked_;
  connection_.send(profile);
  return {};
}

void HandOut::close(bool acknowledge_last) {
  const MutexLock lock(mutex_);
  if (std::exchange(closed_, true)) return;
  if (acknowledge_last) end_last_use();
  changed_.notify_all();
}

bool HandOut::is_ready() const {
  return closed_ || !ready_.empty() || last_epoch_ended_ || failure_.has_value();
}

void HandOut::grant_credit() {
  if (const auto credit = credit_.top_up(microbatches_ready_)) connection_.send(*credit);
}

void HandOut::begin_use(const Position& position) {
  const bool same_step = used_ && used_->epoch == position.epoch && used_->step == position.step;
  if (!same_step) ++steps_since_told_;
  in_use_ = used_ = position;
}

// Ends the use of a microbatch, because the loop continues, and acknowledges what is trained.
void HandOut::end_use() {
  std::optional<Position> done = std::exchange(in_use_, std::nullopt);
  if (says_what_is_trained()) done = trained_;
  if (done) acknowledge_up_to(*done);
}

// Ends the last use. A loop that has come to the end of the job is done with all of it, even if it
// said so of a part only: the node waits for the last acknowledgement.
void HandOut::end_last_use() {
  end_use();
  if (took_last_end_ && used_ && used_ == taken_) acknowledge_up_to(*used_);
}

void HandOut::acknowledge_up_to(const Position& position) {
  if (acknowledged_ && position <= *acknowledged_) return;
  acknowledged_ = position;
  connection_.send(Acknowledgement{position});
}

void HandOut::note_trained(const Position& position) {
  steps_since_told_ = 0;
  if (trained_ && position <= *trained_) return;
  trained_before_ = std::exchange(trained_, position);
}

// Returns whether the loop says which microbatches are trained. One that has stopped to say it is
// as one that never did, so that the node can drop steps.
bool HandOut::says_what_is_trained() const {
  return trained_ && steps_since_told_ <= TrainedSteps::kMostAhead;
}

// Ends the use of a microbatch, unless the caller says itself where the loop is.
void HandOut::begin_wait() {
  if (!closed_ && !prepares_ahead_) end_use();
}

void HandOut::end_wait(Clock::time_point asked) {
  if (!prepares_ahead_) data_wait_ += Clock::now() - asked;
}

void HandOut::note_unwanted(const MicrobatchHeader& header) {
  Position last = header.position;
  last.microbatch = header.microbatches - 1;
  if (!unwanted_.empty() && unwanted_.back() == last) return;
  unwanted_.push_back(last);
  if (unwanted_.size() > kRemembered) unwanted_.pop_front();
}

std::optional<Microbatch> HandOut::take_first(Clock::time_point asked) {
  Ready ready = std::move(ready_.front());
  ready_.pop_front();
  if (const auto* end = std::get_if<EpochEnd>(&ready)) {
    epoch_end_ = *end;
    took_last_end_ = end->last_epoch;
    return std::nullopt;
  }
  microbatches_ready_ -= 1;
  grant_credit();
  auto& microbatch = std::get<Microbatch>(ready);
  taken_ = microbatch.header.position;
  if (microbatch.header.profile_budget_s > 0) asked_ = *taken_;
  if (!microbatch.header.seconds_wanted) note_unwanted(microbatch.header);
  if (!has_work(microbatch.header)) {
    without_work_.push_back(*taken_);
    if (without_work_.size() > kRemembered) without_work_.pop_front();
  }
  microbatch.waited = Clock::now() - asked;
  return std::move(microbatch);
}

}  // namespace isocost
