#include "loader/dataset/shard_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/counted.h"
#include "loader/dataset/count_or_share.h"

namespace isocost {
namespace {

constexpr std::size_t kMostNamed = 20;

// Joins the first texts, and says how many more there are.
std::string join(std::span<const std::string> texts, std::string_view between) {
  std::string joined;
  for (const std::string& text : texts.first(std::min(kMostNamed, texts.size()))) {
    joined += (joined.empty() ? "" : std::string(between)) + text;
  }
  if (texts.size() <= kMostNamed) return joined;
  return joined + fmt::format("{}and {} more", between, texts.size() - kMostNamed);
}

std::vector<std::string> described(const std::vector<BrokenShard>& broken) {
  std::vector<std::string> texts;
  texts.reserve(broken.size());
  for (const BrokenShard& shard : broken) texts.push_back(describe(shard));
  return texts;
}

std::string count_of_broken(const ShardFindings& findings) {
  return fmt::format("{} of {} {} damaged or lost", findings.broken.size(),
                     counted(findings.shards, "shard"), findings.broken.size() == 1 ? "is" : "are");
}

}  // namespace

Status ShardOptions::validate() const {
  ISOCOST_TRY(CountOrShare::parse("allow_broken_shards", allow_broken));
  return {};
}

void log_findings(const ShardFindings& findings, const ShardOptions& options, const LogSink& sink) {
  if (!findings.broken.empty()) {
    log(sink, LogLevel::kWarning,
        count_of_broken(findings) + ": " + join(described(findings.broken), "; "));
  }
  if (!findings.without_end_mark.empty()) {
    log(sink, LogLevel::kWarning,
        fmt::format("{} without the mark that ends a tar file, as where one is cut off between two "
                    "members: {}",
                    counted(findings.without_end_mark.size(), "shard"),
                    join(findings.without_end_mark, ", ")));
  }
  if (options.accept_unread || findings.unread.empty()) return;
  log(sink, LogLevel::kWarning,
      fmt::format("{} not read (accept_unread_archives = on accepts that): {}",
                  findings.unread.size() == 1
                      ? "1 archive is"
                      : fmt::format("{} archives are", findings.unread.size()),
                  join(findings.unread, "; ")));
}

Status check_findings(std::span<const DatasetSource> sources, const ShardOptions& options) {
  ISOCOST_ASSIGN(const CountOrShare allowed,
                 CountOrShare::parse("allow_broken_shards", options.allow_broken));
  for (const DatasetSource& source : sources) {
    const ShardFindings& findings = source.findings;
    if (allowed.allows(findings.broken.size(), findings.shards)) continue;
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}{}, allow_broken_shards allows {}: {}",
                             source.name.empty() ? "" : "source " + source.name + ": ",
                             count_of_broken(findings), options.allow_broken,
                             join(described(findings.broken), "; ")));
  }
  return {};
}

}  // namespace isocost
