#include "loader/node/internal/drain_watch.h"

#include <algorithm>
#include <cstddef>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/range.h"
#include "base/thread_name.h"

namespace isocost {
namespace {

// A job may have thousands of ranks.
constexpr std::size_t kMostNamed = 8;

std::string list_of(const std::vector<std::int32_t>& ranks,
                    const std::function<std::string(std::int32_t rank)>& name) {
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + name(ranks[i]);
  }
  if (ranks.size() > kMostNamed) {
    text += " and " + counted(ranks.size() - kMostNamed, "other rank");
  }
  return text;
}

}  // namespace

DrainWatch::DrainWatch(Options options)
    : options_(std::move(options)), thread_([this](const std::stop_token& stop) { watch(stop); }) {}

std::string DrainWatch::text(const UnfinishedRanks& ranks, std::chrono::milliseconds left,
                             const std::function<std::string(std::int32_t rank)>& name) {
  if (ranks.present.empty() && ranks.absent.empty()) return "";
  std::string text = "asked to stop: waits up to " + in_seconds(left) +
                     " until the steps that ranks have begun are trained. Missing: ";
  text += list_of(ranks.present, name);
  if (ranks.absent.empty()) return text;
  if (!ranks.present.empty()) text += "; ";
  return text + list_of(ranks.absent, name) +
         (ranks.absent.size() == 1 ? ", which has no client" : ", which have no client");
}

void DrainWatch::watch(const std::stop_token& stop) {
  name_thread("isocost-drain");
  std::chrono::milliseconds left = options_.limit;
  while (left.count() > 0) {
    const std::string missing = text(options_.unfinished(), left, options_.name);
    if (!missing.empty()) isocost::log(options_.log, LogLevel::kWarning, missing);
    const auto next = std::min(left, options_.interval);
    {
      const MutexLock lock(mutex_);
      never_.wait_for(mutex_, stop, next, [] { return false; });
    }
    if (stop.stop_requested()) return;
    left -= next;
  }
  options_.end();
}

}  // namespace isocost
