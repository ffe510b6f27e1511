#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "cli/common/exit_status.h"
#include "cli/common/number_range.h"
#include "cli/common/signal_stop.h"
#include "cli/service/commands.h"
#include "cli/service/http_get.h"
#include "cli/service/top_view.h"
#include "loader/metrics/status_json.h"

namespace isocost::cli {
namespace {

struct TopArguments {
  std::string address = "http://127.0.0.1:9464";
  double interval_s = 1;
  double timeout_s = 5;
  bool once = false;
  bool json = false;

  void add_to(CLI::App& command);
};

constexpr std::size_t kMostRanksOnce = 64;
constexpr double kWindowSeconds = 30;  // window of counters while it runs

Result<NodeMetrics> fetch(const std::string& url, const TopArguments& arguments,
                          const std::stop_token& stop) {
  HttpLimits limits;
  limits.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * arguments.timeout_s));
  ISOCOST_ASSIGN(const std::string text, http_get(url, limits, stop));
  auto status = parse_status(text);
  if (!status) return std::move(status).error().with_context(url);
  return status;
}

// Switches to the terminal's alternate screen and back, so that nothing is left behind.
class Screen {
 public:
  Screen() { put("\033[?1049h\033[?25l"); }
  ~Screen() { put("\033[?25h\033[?1049l"); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  static std::size_t rows() { return size().ws_row > 0 ? size().ws_row : 24; }

  // Prints the text, and cuts off what the terminal has no room for; `text` is ASCII.
  static void show(std::string_view text) {
    const std::size_t columns = size().ws_col > 0 ? size().ws_col : 80;
    std::string out = "\033[H";
    for (std::size_t row = 0; row + 1 < rows() && !text.empty(); ++row) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      out += text.substr(0, std::min(end, columns));
      out += "\033[K\r\n";
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    put(out + "\033[J");
  }

 private:
  static winsize size() {
    winsize size{};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    return size;
  }
  static void put(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
};

// Waits. Returns false if the stop ended the wait.
bool wait_for(double seconds, const std::stop_token& stop) {
  Mutex mutex;
  ConditionVariable never;
  const MutexLock lock(mutex);
  never.wait_for(mutex, stop, std::chrono::duration<double>(seconds), [] { return false; });
  return !stop.stop_requested();
}

// Keeps the newest snapshot and, a second or more apart, those of the last kWindowSeconds before
// it, oldest first.
void keep(std::deque<NodeMetrics>& snapshots, NodeMetrics snapshot) {
  const double now = snapshot.uptime_s;
  if (!snapshots.empty() && now < snapshots.back().uptime_s)
    snapshots.clear();  // the snapshot is from another process
  const std::size_t count = snapshots.size();
  if (count > 1 && snapshots[count - 1].uptime_s - snapshots[count - 2].uptime_s < 1) {
    snapshots.pop_back();
  }
  snapshots.push_back(std::move(snapshot));
  while (snapshots.size() > 2 && snapshots[1].uptime_s <= now - kWindowSeconds) {
    snapshots.pop_front();
  }
}

// Runs until it is stopped. A node that does not answer for a while may come back.
Status watch(const std::string& url, const TopArguments& arguments, const std::stop_token& stop) {
  constexpr std::size_t kOtherRows = 21;  // rows above and below the ranks
  std::deque<NodeMetrics> snapshots;
  ISOCOST_ASSIGN(NodeMetrics first, fetch(url, arguments, stop));
  keep(snapshots, std::move(first));
  const NodeMetrics start;
  const Screen screen;
  std::string trouble;
  do {
    const NodeMetrics& before = snapshots.size() > 1 ? snapshots.front() : start;
    const std::size_t rows = Screen::rows();
    const std::size_t rows_per_rank = snapshots.back().places.empty() ? 1 : 2;
    const std::size_t others = kOtherRows + source_rows(snapshots.back());
    const std::size_t ranks = rows > others ? (rows - others) / rows_per_rank : 0;
    Screen::show((trouble.empty() ? "" : "no answer: " + trouble + "\n") +
                 top_table({url, snapshots.back(), before}, std::max<std::size_t>(ranks, 1)));
    if (!wait_for(arguments.interval_s, stop)) break;
    auto next = fetch(url, arguments, stop);
    trouble = next ? "" : next.error().message();
    if (next) keep(snapshots, *std::move(next));
  } while (!stop.stop_requested());
  return {};
}

Result<int> top(const TopArguments& arguments) {
  const SignalStop signals;
  ISOCOST_ASSIGN(const std::string url, status_url(arguments.address));
  if (!arguments.once && !arguments.json && isatty(STDOUT_FILENO) != 0) {
    ISOCOST_TRY(watch(url, arguments, signals.token()));
    return kDone;
  }
  ISOCOST_ASSIGN(const NodeMetrics now, fetch(url, arguments, signals.token()));
  const NodeMetrics start;
  const TopView view{url, now, start};
  std::printf("%s\n",
              arguments.json ? top_json(view).c_str() : top_table(view, kMostRanksOnce).c_str());
  return kDone;
}

void TopArguments::add_to(CLI::App& command) {
  command
      .add_option("URL", address,
                  "Address of the node's metrics: a URL, HOST:PORT, or PORT on this host")
      ->capture_default_str();
  command.add_option("--interval", interval_s, "Seconds between two requests")
      ->check(number_range(0.1, 3600))
      ->capture_default_str();
  command.add_option("--request-timeout", timeout_s, "Seconds to wait for an answer of the node")
      ->check(number_range(0.1, 600))
      ->capture_default_str();
  command.add_flag("--once", once,
                   "Print one table, counted since the node's start, and exit. This is the "
                   "default if the output is not a terminal.");
  command.add_flag("--json", json,
                   "Print one JSON document, counted since the node's start, and exit.");
}

constexpr const char* kTopFooter =
    "Examples:\n"
    "  isocost serve --data data/shards --metrics 9464 &\n"
    "  isocost top\n"
    "  isocost top http://127.0.0.1:9464 --interval 5\n"
    "  ssh -NL 9464:127.0.0.1:9464 loader3 & isocost top    # a node on another host\n"
    "  isocost top --json | jq .modules.vision.prediction_error_ratio\n"
    "Ctrl-C ends it. docs/metrics.md explains the output.";

}  // namespace

void add_top(CLI::App& app, Run& run) {
  add_command<TopArguments>(app, run,
                            {.name = "top",
                             .description = "Watch a node: rates, queues, balance, predictions.",
                             .footer = kTopFooter},
                            top);
}

}  // namespace isocost::cli
