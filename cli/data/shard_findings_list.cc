#include "cli/data/shard_findings_list.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/utf8.h"
#include "cli/common/exit_status.h"

namespace isocost::cli {

void print_findings(const ShardFindings& findings) {
  for (const BrokenShard& shard : findings.broken) {
    std::printf("broken  %s\n", describe(shard).c_str());
  }
  for (const std::string& archive : findings.unread) {
    std::printf("not read  %s\n", printable_utf8(archive).c_str());
  }
  for (const std::string& shard : findings.without_end_mark) {
    std::printf(
        "warning  %s: without the mark that ends a tar file, as where it is cut off between "
        "two members\n",
        printable_utf8(shard).c_str());
  }
}

void add_findings(const ShardFindings& findings, nlohmann::ordered_json& report) {
  nlohmann::ordered_json broken = nlohmann::ordered_json::array();
  for (const BrokenShard& shard : findings.broken) {
    nlohmann::ordered_json entry = {{"shard", printable_utf8(shard.name)},
                                    {"condition", shard.lost ? "lost" : "damaged"},
                                    {"reason", printable_utf8(shard.reason)},
                                    {"samples", shard.samples},
                                    {"samples_when_whole", nullptr}};
    if (shard.samples_when_whole > 0) entry["samples_when_whole"] = shard.samples_when_whole;
    broken.push_back(std::move(entry));
  }
  report["broken"] = std::move(broken);
  const auto printable = [](const std::vector<std::string>& texts) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const std::string& text : texts) list.push_back(printable_utf8(text));
    return list;
  };
  report["unread_archives"] = printable(findings.unread);
  report["without_end_mark"] = printable(findings.without_end_mark);
}

std::string broken_count(const ShardFindings& findings) {
  const std::size_t broken = findings.broken.size();
  return broken == 0 ? "" : ", " + counted(broken, "broken shard");
}

int findings_status(bool is_good, std::span<const DatasetSource> sources,
                    const ShardOptions& options) {
  const bool few_broken = check_findings(sources, options).has_value();
  const bool all_read = std::ranges::all_of(
      sources, [](const DatasetSource& source) { return source.findings.unread.empty(); });
  const bool accepted = few_broken && (options.accept_unread || all_read);
  return is_good && accepted ? kDone : kFailed;
}

}  // namespace isocost::cli
