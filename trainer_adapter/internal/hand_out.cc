#include "trainer_adapter/internal/hand_out.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "trainer_adapter/trained_steps.h"
#include "transport/protocol/rank_options.h"
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

std::array<std::uint8_t, 16> random_client_id() {
  std::random_device device;
  std::array<std::uint8_t, 16> id{};
  for (std::uint8_t& byte : id) byte = static_cast<std::uint8_t>(device());
  return id;
}

RankOptions rank_options(const ClientOptions& options) {
  RankOptions rank;
  rank.endpoint = options.endpoint;
  rank.rank = options.rank;
  rank.world_size = options.world_size;
  rank.layout = options.layout;
  rank.prefetch = options.prefetch;
  rank.prepares_ahead = options.prepares_ahead;
  rank.most_steps_ahead = TrainedSteps::kMostAhead;
  rank.client_id = random_client_id();
  rank.start = options.start;
  rank.accept_other_data = options.accept_other_data;
  rank.hardware = options.hardware;
  rank.connect_timeout = options.connect_timeout;
  return rank;
}

}  // namespace

HandOut::HandOut(const ClientOptions& options, Connection& connection)
    : receives_(options.rank != kNoRank),
      connection_(connection),
      machine_(rank_options(options), Clock::now()) {}

std::uint32_t HandOut::prefetch() const {
  const MutexLock lock(mutex_);
  return machine_.prefetch();
}

RankActions HandOut::complete(const Position& position, Result<Microbatch>&& assembled) {
  RankActions others;
  {
    const MutexLock lock(mutex_);
    Status result;
    if (assembled) {
      early_.push_back(*std::move(assembled));
    } else {
      result = assembled.error();
    }
    machine_.assembled(position, result, actions_);
    const bool wakes = perform();
    if (!actions_.empty()) others.swap(actions_);
    if (!wakes) return others;
  }
  changed_.notify_all();  // without the mutex, which the trainer needs to continue
  return others;
}

Error HandOut::unanswered(const std::string& why_unreached) const {
  const MutexLock lock(mutex_);
  return machine_.unanswered(why_unreached);
}

// Performs what concerns messages and the loop, and leaves the other actions. Returns whether the
// loop may have something to wake for.
bool HandOut::perform() {
  bool wakes = false;
  const auto performed = [&](const RankAction& action) ISOCOST_REQUIRES(mutex_) {
    if (const auto* sent = std::get_if<SendMessage>(&action)) {
      connection_.send(sent->message);
    } else if (const auto* handed = std::get_if<HandOver>(&action)) {
      hand_over(*handed);
      wakes = true;
    } else if (const auto* failed = std::get_if<Fail>(&action)) {
      failure_ = failed->error;
      resume_point_ = failed->resume_point;
      wakes = true;
    } else if (std::holds_alternative<Recover>(action)) {
      failure_.reset();
    } else {
      if (std::holds_alternative<DropIncomplete>(action)) early_.clear();
      return false;
    }
    return true;
  };
  std::erase_if(actions_, performed);
  return wakes;
}

void HandOut::hand_over(const HandOver& handed) {
  if (const auto* end = std::get_if<EpochEnd>(&handed.next)) {
    ready_.emplace_back(*end);
    return;
  }
  const auto& position = std::get<Position>(handed.next);
  const auto at = std::ranges::find_if(
      early_, [&](const Microbatch& microbatch) { return microbatch.header.position == position; });
  if (at == early_.end()) {
    failure_ = Error(ErrorCode::kInternal, "a microbatch is handed over that was not assembled");
    return;
  }
  ready_.emplace_back(std::move(*at));
  early_.erase(at);
}

std::optional<Position> HandOut::resume_point() const {
  const MutexLock lock(mutex_);
  return resume_point_;
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
  ask();
  const bool woken =
      changed_.wait(mutex_, stop, [this]() ISOCOST_REQUIRES(mutex_) { return is_ready(); });
  machine_.end_wait(Clock::now() - asked);
  if (machine_.is_closed()) return Error(ErrorCode::kCancelled, "the client is closed");
  if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "next was asked to stop");
  if (!ready_.empty()) return take_first(asked);
  if (failure_) return *failure_;
  if (!woken) return Error(ErrorCode::kCancelled, "stopped while waiting for a microbatch");
  return std::optional<Microbatch>();
}

bool HandOut::wait(std::chrono::milliseconds limit) {
  const auto asked = Clock::now();
  const OneThread thread(asked_for_);
  if (!thread.alone()) return true;  // `next` reports why
  const MutexLock lock(mutex_);
  ask();
  const bool ready =
      changed_.wait_for(mutex_, limit, [this]() ISOCOST_REQUIRES(mutex_) { return is_ready(); });
  machine_.end_wait(Clock::now() - asked);
  return ready;
}

void HandOut::use(const Position& position, std::chrono::nanoseconds waited) {
  const MutexLock lock(mutex_);
  machine_.use(position, waited, actions_);
  perform();
}

void HandOut::acknowledge() {
  const MutexLock lock(mutex_);
  machine_.acknowledge(actions_);
  perform();
}

Status HandOut::trained(const Position& position) {
  const MutexLock lock(mutex_);
  return machine_.train(position);
}

void HandOut::revoke(const Position& position) {
  const MutexLock lock(mutex_);
  machine_.revoke(position);
}

Status HandOut::send(const Report& report) {
  const MutexLock lock(mutex_);
  ISOCOST_TRY(machine_.report(report, Clock::now(), actions_));
  perform();
  machine_.end_report(Clock::now());
  return {};
}

Status HandOut::send(const ProfileUpdate& profile) {
  const MutexLock lock(mutex_);
  ISOCOST_TRY(machine_.send_profile(profile, actions_));
  perform();
  return {};
}

void HandOut::close(bool acknowledge_last) {
  const MutexLock lock(mutex_);
  machine_.close(acknowledge_last, actions_);
  perform();
  changed_.notify_all();
}

bool HandOut::is_ready() const {
  return machine_.is_closed() || !ready_.empty() || machine_.is_over();
}

// Tells the machine that the loop asks for the next microbatch.
void HandOut::ask() {
  machine_.ask(actions_);
  perform();
}

std::optional<Microbatch> HandOut::take_first(Clock::time_point asked) {
  Ready ready = std::move(ready_.front());
  ready_.pop_front();
  if (const auto* end = std::get_if<EpochEnd>(&ready)) {
    epoch_end_ = *end;
    machine_.take(*end);
    return std::nullopt;
  }
  auto& microbatch = std::get<Microbatch>(ready);
  machine_.take(microbatch.header, actions_);
  perform();
  microbatch.waited = Clock::now() - asked;
  return std::move(microbatch);
}

}  // namespace isocost
