#include "cli/common/loader_rate.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "loader/node/node_thread.h"
#include "trainer_adapter/client.h"

namespace isocost::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Small enough that two steps warm up within a second, large enough to keep the workers busy.
constexpr std::int64_t kSamplesPerStep = 64;
constexpr std::uint64_t kStepsWarmUp = 2;

struct ProcessTime {
  pid_t parent = 0;
  double cpu_s = 0;
};

// Reads /proc/PID/stat. Fields are counted after the name, which may hold anything but ends with
// the last ')'.
ProcessTime read_process(const fs::path& directory) {
  std::ifstream file(directory / "stat");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string stat = text.str();
  const std::size_t end = stat.rfind(')');
  if (end == std::string::npos) return {};  // it has ended meanwhile
  std::istringstream fields(stat.substr(end + 1));
  std::string state;
  ProcessTime time;
  fields >> state >> time.parent;
  std::string skipped;
  for (int i = 0; i < 9; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  time.cpu_s = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return time;
}

// Returns the CPU seconds of this process and of all that descend from it: the decode workers.
double tree_cpu_seconds() {
  std::map<pid_t, ProcessTime> all;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator("/proc", failed)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    all.emplace(static_cast<pid_t>(std::stoi(name)), read_process(entry.path()));
  }
  double sum = 0;
  std::vector<pid_t> open = {getpid()};
  while (!open.empty()) {
    const pid_t of = open.back();
    open.pop_back();
    sum += all[of].cpu_s;
    for (const auto& [id, time] : all) {
      if (time.parent == of) open.push_back(id);
    }
  }
  return sum;
}

// Returns the CPU seconds of the calling thread, which is the trainer here.
double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double node_cpu_seconds() { return tree_cpu_seconds() - thread_cpu_seconds(); }

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void set_job(NodeOptions& options) {
  options.plan.ranks = 1;
  options.plan.global_batch_size = kSamplesPerStep;
  options.plan.epochs = 0;
  options.bad_samples.file.clear();
  options.service.bind = "tcp://127.0.0.1:*";
}

// Takes microbatches until `seconds` have passed since the first step that counts.
Result<LoaderRate> take_samples(Client& client, double seconds, const ProgressSink& progress,
                                const std::stop_token& stop) {
  LoaderRate rate;
  double cpu_before = 0;
  Clock::time_point start;
  std::uint64_t steps = 0;
  bool counts = false;
  while (!counts || seconds_since(start) < seconds) {
    ISOCOST_ASSIGN(const auto microbatch, client.next(stop));
    if (!microbatch) continue;  // the end of an epoch
    const bool warm = steps >= kStepsWarmUp;
    if (microbatch->header.last_of_step()) ++steps;
    if (!counts && warm) {
      counts = true;
      start = Clock::now();
      cpu_before = node_cpu_seconds();
    }
    if (!counts) continue;
    rate.samples += microbatch->header.samples.size();
    if (progress) {
      const auto done = static_cast<std::uint64_t>(10 * std::min(seconds, seconds_since(start)));
      progress(done, static_cast<std::uint64_t>(10 * seconds), "measuring the loader");
    }
  }
  if (rate.samples == 0) return Error(ErrorCode::kNotFound, "the loader delivered no sample");
  rate.cpu_s_per_sample = (node_cpu_seconds() - cpu_before) / static_cast<double>(rate.samples);
  return rate;
}

}  // namespace

Result<LoaderRate> measure_loader(NodeOptions options, double seconds, const ProgressSink& progress,
                                  const std::stop_token& stop) {
  set_job(options);
  ISOCOST_ASSIGN(auto made, Node::create(options, {}, {}, {}, stop));
  NodeThread node(std::move(made));
  ClientOptions of_client;
  of_client.endpoint = node.endpoint();
  ISOCOST_ASSIGN(const auto client, Client::connect(of_client));
  return take_samples(*client, seconds, progress, stop);
}

}  // namespace isocost::cli
