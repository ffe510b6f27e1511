#include "loader/dataset/stores/remote/request_sender.h"

#include <algorithm>
#include <ctime>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/thread_name.h"
#include "loader/dataset/stores/remote/internal/in_flight_limit.h"
#include "loader/dataset/stores/remote/internal/retry_rule.h"
#include "loader/dataset/stores/remote/internal/server_trouble.h"
#include "loader/dataset/stores/remote/internal/wait_for_response.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;

// So many bytes of a body that broke off are progress. A server that gives less in an attempt could
// otherwise keep a request going for ever.
constexpr std::size_t kProgressBytes = std::size_t{64} << 10;

// A request from `send` to its `done`. It belongs to one of the sender's lists, or to the one
// thread that makes or ends its attempt.
struct Task {
  RequestSender::MakeRequest make;
  HttpClient::Done done;
  std::stop_source stop;  // The caller's stop and the sender's end, for the client.
  std::optional<std::stop_callback<std::function<void()>>> on_stop;

  int attempts = 0;
  MonotonicTime began;       // the first attempt, or one after progress
  bool unreachable = false;  // this attempt: see HttpRequest::on_unreachable
  std::uint64_t period = 0;  // See InFlightLimit.
  std::string name;
  std::size_t kept_bytes = 0;  // Those of this attempt that `on_broken` was given.
};
using TaskPtr = std::shared_ptr<Task>;

class QueuedSender final : public RequestSender {
 public:
  QueuedSender(HttpClient& client, const RequestSenderOptions& options)
      : client_(client),
        give_up_after_(options.give_up_after),
        give_up_unreachable_after_(options.give_up_unreachable_after),
        log_(options.log),
        limit_(options.most_in_flight),
        random_(std::random_device()()),
        thread_([this] { run(); }) {}
  ~QueuedSender() override;
  QueuedSender(const QueuedSender&) = delete;
  QueuedSender& operator=(const QueuedSender&) = delete;

  void send(MakeRequest make, std::stop_token stop, HttpClient::Done done) override;
  RequestCounts counts() const override;

 private:
  // The next work of the thread.
  struct Next {
    std::vector<TaskPtr> cancelled;
    TaskPtr attempt;
    bool over = false;
  };

  void run();
  Next wait_for_next();
  Next find_next() ISOCOST_REQUIRES(mutex_);
  void take_cancelled(std::vector<TaskPtr>& into) ISOCOST_REQUIRES(mutex_);
  void resume_paused() ISOCOST_REQUIRES(mutex_);

  void attempt(const TaskPtr& task);
  void watch(HttpRequest& request, const TaskPtr& task);
  void attempt_ended(const TaskPtr& task, Result<HttpResponse> outcome);
  bool pause_or_end(const TaskPtr& task, Result<HttpResponse>& outcome) ISOCOST_REQUIRES(mutex_);
  std::optional<MonotonicTime> next_time(Task& task, const Result<HttpResponse>& outcome)
      ISOCOST_REQUIRES(mutex_);

  HttpClient& client_;
  const milliseconds give_up_after_;
  const milliseconds give_up_unreachable_after_;
  const LogSink log_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool ending_ ISOCOST_GUARDED_BY(mutex_) = false;
  bool some_stopped_ ISOCOST_GUARDED_BY(mutex_) = false;
  bool has_answered_ ISOCOST_GUARDED_BY(mutex_) = false;  // the server, whatever it said
  std::deque<TaskPtr> queue_ ISOCOST_GUARDED_BY(mutex_);
  std::multimap<MonotonicTime, TaskPtr> paused_ ISOCOST_GUARDED_BY(mutex_);
  std::set<TaskPtr> in_flight_ ISOCOST_GUARDED_BY(mutex_);
  // Attempts that `attempt_ended` still works on, or will.
  std::size_t unfinished_ ISOCOST_GUARDED_BY(mutex_) = 0;
  InFlightLimit limit_ ISOCOST_GUARDED_BY(mutex_);
  ServerTrouble trouble_ ISOCOST_GUARDED_BY(mutex_);
  RequestCounts counts_ ISOCOST_GUARDED_BY(mutex_);
  Random random_ ISOCOST_GUARDED_BY(mutex_);

  std::jthread thread_;
};

// Ends a task. The callback of its stop token is gone before `done` runs, since both may end what
// the other uses.
void end(const TaskPtr& task, Result<HttpResponse> outcome) {
  task->on_stop.reset();
  task->done(std::move(outcome));
}

Error cancelled(const Task& task) {
  return {ErrorCode::kCancelled,
          (task.name.empty() ? "" : task.name + ": ") + "the request was cancelled"};
}

QueuedSender::~QueuedSender() {
  std::set<TaskPtr> in_flight;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    in_flight = in_flight_;
    changed_.notify_all();
  }
  for (const TaskPtr& task : in_flight) task->stop.request_stop();
  thread_.join();
}

void QueuedSender::send(MakeRequest make, std::stop_token stop, HttpClient::Done done) {
  const auto task = std::make_shared<Task>();
  task->make = std::move(make);
  task->done = std::move(done);
  task->on_stop.emplace(std::move(stop), [this, source = task->stop]() mutable {
    source.request_stop();
    const MutexLock lock(mutex_);
    some_stopped_ = true;
    changed_.notify_all();
  });
  const MutexLock lock(mutex_);
  if (task->stop.stop_requested()) some_stopped_ = true;
  queue_.push_back(task);
  changed_.notify_all();
}

RequestCounts QueuedSender::counts() const {
  const MutexLock lock(mutex_);
  RequestCounts counts = counts_;
  counts.in_flight = static_cast<std::int64_t>(in_flight_.size());
  counts.allowed_in_flight = static_cast<std::int64_t>(limit_.allowed());
  return counts;
}

void QueuedSender::run() {
  name_thread("isocost-requests");
  while (true) {
    const Next next = wait_for_next();
    for (const TaskPtr& task : next.cancelled) end(task, cancelled(*task));
    if (next.attempt) attempt(next.attempt);
    if (next.over) return;
  }
}

QueuedSender::Next QueuedSender::wait_for_next() {
  const MutexLock lock(mutex_);
  while (true) {
    Next next = find_next();
    if (next.over || next.attempt || !next.cancelled.empty()) return next;
    // Whatever makes work notifies, with the mutex held.
    bool woken = false;
    const auto ready = [&woken] { return std::exchange(woken, true); };
    if (paused_.empty()) {
      changed_.wait(mutex_, ready);
    } else {
      changed_.wait_until(mutex_, std::stop_token(), paused_.begin()->first, ready);
    }
  }
}

QueuedSender::Next QueuedSender::find_next() {
  Next next;
  if (ending_ || some_stopped_) take_cancelled(next.cancelled);
  if (ending_) {
    next.over = next.cancelled.empty() && unfinished_ == 0;
    return next;
  }
  resume_paused();
  if (queue_.empty() || in_flight_.size() >= limit_.allowed()) return next;
  next.attempt = std::move(queue_.front());
  queue_.pop_front();
  in_flight_.insert(next.attempt);
  next.attempt->period = limit_.period();
  ++unfinished_;
  return next;
}

void QueuedSender::take_cancelled(std::vector<TaskPtr>& into) {
  some_stopped_ = false;
  // Asked once for each: a stop may be requested at any moment, and a task that were erased but not
  // taken would never end.
  const auto take_if_over = [&](const TaskPtr& task) ISOCOST_REQUIRES(mutex_) {
    const bool is_over = ending_ || task->stop.stop_requested();
    if (is_over) into.push_back(task);
    return is_over;
  };
  std::erase_if(queue_, take_if_over);
  std::erase_if(paused_, [&](const auto& entry)
                             ISOCOST_REQUIRES(mutex_) { return take_if_over(entry.second); });
}

// Puts those whose pause is over before those that were never sent.
void QueuedSender::resume_paused() {
  const MonotonicTime now = std::chrono::steady_clock::now();
  const auto due = paused_.upper_bound(now);
  std::vector<TaskPtr> resumed;
  for (auto at = paused_.begin(); at != due; ++at) resumed.push_back(at->second);
  paused_.erase(paused_.begin(), due);
  queue_.insert(queue_.begin(), resumed.begin(), resumed.end());
}

void QueuedSender::attempt(const TaskPtr& task) {
  if (task->attempts == 0) task->began = std::chrono::steady_clock::now();
  ++task->attempts;
  task->kept_bytes = 0;
  task->unreachable = false;
  Result<HttpRequest> request = task->make();
  if (!request) return attempt_ended(task, std::move(request).error());
  task->name = request->name;
  watch(*request, task);
  {
    const MutexLock lock(mutex_);
    ++counts_.requests;
  }
  client_.send(
      *std::move(request), task->stop.get_token(),
      [this, task](Result<HttpResponse> outcome) { attempt_ended(task, std::move(outcome)); });
}

// Has the task told that the server is unreachable, and the bytes of a broken body counted on their
// way to who asked for them.
void QueuedSender::watch(HttpRequest& request, const TaskPtr& task) {
  request.on_unreachable = [task] { task->unreachable = true; };
  if (!request.on_broken) return;
  request.on_broken = [task, keep = std::move(request.on_broken)](HttpResponse response) {
    task->kept_bytes = response.body.size();
    return keep(std::move(response));
  };
}

void QueuedSender::attempt_ended(const TaskPtr& task, Result<HttpResponse> outcome) {
  std::optional<ServerTrouble::Line> line;
  bool over = false;
  {
    const MutexLock lock(mutex_);
    in_flight_.erase(task);
    line = trouble_.note(outcome, task->name, std::chrono::steady_clock::now());
    over = pause_or_end(task, outcome);
    changed_.notify_all();
  }
  if (line) log(log_, line->level, line->text);
  if (over) end(task, std::move(outcome));
  const MutexLock lock(mutex_);
  --unfinished_;
  changed_.notify_all();
}

// Counts the outcome. Returns whether the task is over; otherwise it is paused.
bool QueuedSender::pause_or_end(const TaskPtr& task, Result<HttpResponse>& outcome) {
  const std::size_t bytes = outcome ? outcome->body.size() : task->kept_bytes;
  counts_.bytes += static_cast<std::int64_t>(bytes);
  has_answered_ = has_answered_ || outcome.has_value();
  if (asks_to_wait(outcome)) {
    ++counts_.throttled;
    limit_.throttled(task->period);
  } else if (outcome && !may_pass(outcome)) {
    limit_.answered(!queue_.empty());
  }
  if (!may_pass(outcome)) return true;
  if (ending_ || task->stop.stop_requested()) {
    outcome = cancelled(*task);
    return true;
  }
  const auto time = next_time(*task, outcome);
  if (!time) return true;
  ++counts_.retries;
  paused_.emplace(*time, task);
  return false;
}

std::optional<MonotonicTime> QueuedSender::next_time(Task& task,
                                                     const Result<HttpResponse>& outcome) {
  const MonotonicTime now = std::chrono::steady_clock::now();
  if (task.kept_bytes >= kProgressBytes) {
    task.attempts = 1;
    task.began = now;
  }
  const bool may_be_wrong = task.unreachable && !has_answered_;
  const MonotonicTime give_up_at =
      task.began +
      (may_be_wrong ? std::min(give_up_unreachable_after_, give_up_after_) : give_up_after_);
  if (now >= give_up_at) return std::nullopt;
  const milliseconds pause = retry_pause(outcome, task.attempts, std::time(nullptr), random_);
  return std::min(now + pause, give_up_at);
}

}  // namespace

std::unique_ptr<RequestSender> RequestSender::create(HttpClient& client,
                                                     const RequestSenderOptions& options) {
  return std::make_unique<QueuedSender>(client, options);
}

Result<HttpResponse> RequestSender::wait_for(MakeRequest make, const std::stop_token& stop) {
  return wait_for_response(
      [&](HttpClient::Done done) { send(std::move(make), stop, std::move(done)); });
}

}  // namespace isocost
