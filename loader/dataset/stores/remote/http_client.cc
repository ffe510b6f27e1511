#include "loader/dataset/stores/remote/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/thread_name.h"
#include "loader/dataset/stores/remote/internal/certificate_file.h"
#include "loader/dataset/stores/remote/internal/curl_transfer.h"
#include "loader/dataset/stores/remote/internal/wait_for_response.h"

namespace isocost {
namespace {

// libcurl's own timers end a poll earlier, and so does each request.
constexpr int kPollMs = 60'000;

struct MultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
using Multi = std::unique_ptr<CURLM, MultiDeleter>;

// A request from `send` to its `done`.
struct Job {
  Job(HttpRequest request, const TransferSettings& settings, HttpClient::Done when_done)
      : name(request.name), transfer(std::move(request), settings), done(std::move(when_done)) {}

  std::string name;
  CurlTransfer transfer;
  HttpClient::Done done;
  std::atomic<bool> stopped = false;
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
};
using JobPtr = std::unique_ptr<Job>;

// Ends a job. The callback of its stop token is gone before `done` runs, since both may end what
// the other uses.
void end(const JobPtr& job, Result<HttpResponse> outcome) {
  job->on_stop.reset();
  job->done(std::move(outcome));
}

void cancel(const JobPtr& job) {
  end(job, Error(ErrorCode::kCancelled, job->name + ": the request was cancelled"));
}

class CurlHttpClient final : public HttpClient {
 public:
  CurlHttpClient(Multi multi, TransferSettings settings, std::size_t max_connections)
      : settings_(std::move(settings)),
        max_connections_(max_connections),
        multi_(std::move(multi)),
        thread_([this] { run(); }) {}
  ~CurlHttpClient() override;
  CurlHttpClient(const CurlHttpClient&) = delete;
  CurlHttpClient& operator=(const CurlHttpClient&) = delete;

  void send(HttpRequest request, std::stop_token stop, Done done) override;

 private:
  void run();
  bool take_new();
  void start_waiting();
  void start(JobPtr job);
  void finish_ended();
  void finish(CURL* handle, CURLcode code);
  void drop_stopped();
  void cancel_all();

  const TransferSettings settings_;
  const std::size_t max_connections_;
  Multi multi_;
  std::atomic<bool> some_stopped_ = false;

  Mutex mutex_;
  bool ending_ ISOCOST_GUARDED_BY(mutex_) = false;
  std::vector<JobPtr> new_ ISOCOST_GUARDED_BY(mutex_);

  // Those of the thread. libcurl's own queue is not used: it looks at each of its requests whenever
  // one ends.
  std::deque<JobPtr> waiting_;
  std::unordered_map<CURL*, JobPtr> active_;

  std::jthread thread_;
};

CurlHttpClient::~CurlHttpClient() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  curl_multi_wakeup(multi_.get());
  thread_.join();
}

void CurlHttpClient::send(HttpRequest request, std::stop_token stop, Done done) {
  auto job = std::make_unique<Job>(std::move(request), settings_, std::move(done));
  job->on_stop.emplace(std::move(stop), [this, &stopped = job->stopped] {
    stopped = true;
    some_stopped_ = true;
    curl_multi_wakeup(multi_.get());
  });
  {
    const MutexLock lock(mutex_);
    new_.push_back(std::move(job));
  }
  curl_multi_wakeup(multi_.get());
}

void CurlHttpClient::run() {
  name_thread("isocost-http");
  while (take_new()) {
    drop_stopped();
    start_waiting();
    int running = 0;
    curl_multi_perform(multi_.get(), &running);
    finish_ended();
    start_waiting();
    curl_multi_poll(multi_.get(), nullptr, 0, kPollMs, nullptr);
  }
  cancel_all();
}

// Returns whether the client goes on.
bool CurlHttpClient::take_new() {
  const MutexLock lock(mutex_);
  for (JobPtr& job : new_) {
    if (job->stopped) some_stopped_ = true;  // Before it was new.
    waiting_.push_back(std::move(job));
  }
  new_.clear();
  return !ending_;
}

void CurlHttpClient::start_waiting() {
  while (!waiting_.empty() && active_.size() < max_connections_) {
    JobPtr job = std::move(waiting_.front());
    waiting_.pop_front();
    start(std::move(job));
  }
}

void CurlHttpClient::start(JobPtr job) {
  if (job->stopped) return cancel(job);
  if (const Status prepared = job->transfer.prepare(); !prepared) {
    return end(job, prepared.error());
  }
  CURL* handle = job->transfer.handle();
  active_.emplace(handle, std::move(job));
  curl_multi_add_handle(multi_.get(), handle);
}

void CurlHttpClient::finish_ended() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg == CURLMSG_DONE) finish(message->easy_handle, message->data.result);
  }
}

void CurlHttpClient::finish(CURL* handle, CURLcode code) {
  curl_multi_remove_handle(multi_.get(), handle);
  const auto found = active_.find(handle);
  if (std::optional<Result<HttpResponse>> outcome = found->second->transfer.ended(code)) {
    const JobPtr job = std::move(found->second);
    active_.erase(found);
    end(job, *std::move(outcome));
  } else {
    curl_multi_add_handle(multi_.get(), handle);
  }
}

void CurlHttpClient::drop_stopped() {
  if (!some_stopped_.exchange(false)) return;
  std::vector<JobPtr> dropped;
  for (auto at = active_.begin(); at != active_.end();) {
    if (!at->second->stopped) {
      ++at;
      continue;
    }
    curl_multi_remove_handle(multi_.get(), at->first);
    dropped.push_back(std::move(at->second));
    at = active_.erase(at);
  }
  std::deque<JobPtr> kept;
  for (JobPtr& job : waiting_) {
    if (job->stopped) {
      dropped.push_back(std::move(job));
    } else {
      kept.push_back(std::move(job));
    }
  }
  waiting_ = std::move(kept);
  for (const JobPtr& job : dropped) cancel(job);
}

void CurlHttpClient::cancel_all() {
  for (const auto& [handle, job] : active_) {
    curl_multi_remove_handle(multi_.get(), handle);
    cancel(job);
  }
  active_.clear();
  // A `done` may send more, which is then cancelled, too.
  do {
    std::deque<JobPtr> waiting = std::exchange(waiting_, {});
    for (const JobPtr& job : waiting) cancel(job);
    take_new();
  } while (!waiting_.empty());
}

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<std::unique_ptr<HttpClient>> HttpClient::create(const HttpClientOptions& options) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  ISOCOST_ASSIGN(CertificateFile certificates,
                 find_certificate_file(options.ca_file, environment_variable));
  Multi multi(curl_multi_init());
  if (initialised != CURLE_OK || !multi) {
    return Error(ErrorCode::kInternal, "cannot start libcurl");
  }
  const std::size_t connections = std::max<std::size_t>(options.max_connections, 1);
  curl_multi_setopt(multi.get(), CURLMOPT_MAXCONNECTS, static_cast<long>(connections));
  const auto stall = std::chrono::ceil<std::chrono::seconds>(options.stall_timeout);
  TransferSettings settings{.certificates = std::move(certificates),
                            .connect_timeout_ms = static_cast<long>(
                                std::max<std::int64_t>(options.connect_timeout.count(), 1)),
                            .stall_s = static_cast<long>(std::max<std::int64_t>(stall.count(), 1))};
  return std::make_unique<CurlHttpClient>(std::move(multi), std::move(settings), connections);
}

Result<HttpResponse> HttpClient::wait_for(HttpRequest request, const std::stop_token& stop) {
  return wait_for_response([&](Done done) { send(std::move(request), stop, std::move(done)); });
}

}  // namespace isocost
