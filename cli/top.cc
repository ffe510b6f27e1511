#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/http_get.h"
#include "cli/number_range.h"
#include "cli/signal_stop.h"
#include "cli/top_view.h"

namespace isocost::cli {
namespace {

struct TopArguments {
  std::string address = "http://127.0.0.1:9464";
  double interval_s = 1;
  double timeout_s = 5;
  bool once = false;
  bool json = false;
};

constexpr std::size_t kMostRanksOnce = 64;
constexpr double kWindowSeconds = 30;  // over which counters are shown while it runs
constexpr std::size_t kMostScrapes = 600;

Result<Scrape> scrape(const std::string& url, const TopArguments& arguments,
                      const std::stop_token& stop) {
  HttpLimits limits;
  limits.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * arguments.timeout_s));
  ISOCOST_ASSIGN(const std::string text, http_get(url, limits, stop));
  auto read = read_scrape(text);
  if (!read) return std::move(read).error().with_context(url);
  return read;
}

// The screen while it lasts: an alternate one without cursor, so that nothing is left behind.
class Screen {
 public:
  Screen() { put("\033[?1049h\033[?25l"); }
  ~Screen() { put("\033[?25h\033[?1049l"); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  static std::size_t rows() { return size().ws_row > 0 ? size().ws_row : 24; }

  // Lines that are too long or too many are cut off; `text` is ASCII.
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

// False where the wait ended because of the stop.
bool wait_for(double seconds, const std::stop_token& stop) {
  Mutex mutex;
  ConditionVariable never;
  const MutexLock lock(mutex);
  never.wait_for(mutex, stop, std::chrono::duration<double>(seconds), [] { return false; });
  return !stop.stop_requested();
}

// The scrapes of the last while, oldest first.
void keep(std::deque<Scrape>& scrapes, Scrape scrape) {
  constexpr auto kUptime = "uptime_seconds";
  const double now = scrape.value(kUptime);
  if (!scrapes.empty() && now < scrapes.back().value(kUptime)) scrapes.clear();  // another process
  scrapes.push_back(std::move(scrape));
  while (scrapes.size() > 2 &&
         (scrapes[1].value(kUptime) <= now - kWindowSeconds || scrapes.size() > kMostScrapes)) {
    scrapes.pop_front();
  }
}

// Until it is stopped: a node that does not answer for a while may come back.
Status watch(const std::string& url, const TopArguments& arguments, const std::stop_token& stop) {
  constexpr std::size_t kRowsAboveRanks = 20;
  std::deque<Scrape> scrapes;
  ISOCOST_ASSIGN(Scrape first, scrape(url, arguments, stop));
  keep(scrapes, std::move(first));
  const Scrape beginning;
  const Screen screen;
  std::string trouble;
  do {
    const Scrape& before = scrapes.size() > 1 ? scrapes.front() : beginning;
    const std::size_t rows = Screen::rows();
    const std::size_t ranks = rows > kRowsAboveRanks + 1 ? rows - kRowsAboveRanks : 1;
    Screen::show((trouble.empty() ? "" : "no news: " + trouble + "\n") +
                 top_table({url, scrapes.back(), before}, ranks));
    if (!wait_for(arguments.interval_s, stop)) break;
    auto next = scrape(url, arguments, stop);
    trouble = next ? "" : next.error().message();
    if (next) keep(scrapes, *std::move(next));
  } while (!stop.stop_requested());
  return {};
}

Status top(const TopArguments& arguments) {
  const SignalStop signals;
  ISOCOST_ASSIGN(const std::string url, metrics_url(arguments.address));
  if (!arguments.once && !arguments.json && isatty(STDOUT_FILENO) != 0) {
    return watch(url, arguments, signals.token());
  }
  ISOCOST_ASSIGN(const Scrape now, scrape(url, arguments, signals.token()));
  const Scrape beginning;
  const TopView view{url, now, beginning};
  std::printf("%s\n",
              arguments.json ? top_json(view).c_str() : top_table(view, kMostRanksOnce).c_str());
  return {};
}

}  // namespace

void add_top(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("top", "Watch a node: predictions, balance, queues, rates.");
  auto arguments = std::make_shared<TopArguments>();
  command
      ->add_option("URL", arguments->address,
                   "Where the node serves metrics; PORT and HOST:PORT will do")
      ->capture_default_str();
  command->add_option("--interval", arguments->interval_s, "Seconds between two looks")
      ->check(number_range(0.1, 3600))
      ->capture_default_str();
  command->add_option("--timeout", arguments->timeout_s, "Seconds to wait for an answer")
      ->check(number_range(0.1, 600))
      ->capture_default_str();
  command->add_flag("--once", arguments->once,
                    "Print one table, counted since the node's start, and end; so without a "
                    "terminal.");
  command->add_flag("--json", arguments->json, "The same as a JSON document.");
  command->footer(
      "Examples:\n"
      "  isocost serve --data data/shards --metrics 9464 &\n"
      "  isocost top\n"
      "  isocost top http://127.0.0.1:9465 --interval 5\n"
      "  ssh -NL 9464:127.0.0.1:9464 loader3 & isocost top    # a node on another host\n"
      "  isocost top --json | jq .modules.vision.mape\n"
      "Ctrl-C ends it. docs/metrics.md explains what is shown. Status: 0, 1 where no node "
      "answers,\n"
      "2 wrong call.");
  command->callback([arguments, &run] {
    run = [arguments]() -> Result<int> {
      ISOCOST_TRY(top(*arguments));
      return kDone;
    };
  });
}

}  // namespace isocost::cli
