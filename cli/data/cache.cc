#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/utf8.h"
#include "cli/common/exit_status.h"
#include "cli/common/json_output.h"
#include "cli/data/commands.h"
#include "loader/dataset/stores/cache/cache_directory.h"

namespace isocost::cli {
namespace {

// Holds the arguments that all commands of the group take.
struct CacheArguments {
  std::string directory;
  bool json = false;

  void add_to(CLI::App& command) {
    command.add_option("DIR", directory, "The directory of --cache")->required();
    command.add_flag("--json", json, "Print JSON instead of text");
  }
};

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

// Returns a time in UTC, as in 2026-01-31T12:00:00Z.
std::string time_text(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, length};
}

Result<int> cache_ls(const CacheArguments& arguments) {
  ISOCOST_ASSIGN(const std::vector<CachedObjectInfo> listed, list_cache(arguments.directory));
  std::int64_t held = 0;
  std::int64_t disk = 0;
  for (const CachedObjectInfo& entry : listed) {
    held += entry.held_bytes;
    disk += entry.disk_bytes;
  }
  if (arguments.json) {
    nlohmann::ordered_json json = {{"held_bytes", held}, {"disk_bytes", disk}};
    json["entries"] = nlohmann::ordered_json::array();
    for (const CachedObjectInfo& entry : listed) {
      json["entries"].push_back({{"object", printable_utf8(entry.object)},
                                 {"etag", printable_utf8(entry.etag)},
                                 {"held_bytes", entry.held_bytes},
                                 {"bytes", entry.bytes},
                                 {"disk_bytes", entry.disk_bytes},
                                 {"last_use", time_text(entry.last_use)}});
    }
    print_json(json);
    return kDone;
  }
  std::printf("%12s %12s  %-20s  %s\n", "held MB", "of MB", "last use", "object");
  for (const CachedObjectInfo& entry : listed) {
    std::printf("%12.3f %12.3f  %-20s  %s\n", megabytes(entry.held_bytes), megabytes(entry.bytes),
                time_text(entry.last_use).c_str(), printable_utf8(entry.object).c_str());
  }
  std::printf("%12.3f MB in %s, %.3f MB on the disk\n", megabytes(held),
              listed.size() == 1 ? "1 entry" : (std::to_string(listed.size()) + " entries").c_str(),
              megabytes(disk));
  return kDone;
}

struct CacheRmArguments : CacheArguments {
  std::string prefix;

  void add_to(CLI::App& command) {
    CacheArguments::add_to(command);
    command
        .add_option("--prefix", prefix,
                    "Remove only entries of objects whose addresses begin so, as in "
                    "s3://bucket/train/")
        ->type_name("ADDRESS");
  }
};

Result<int> cache_rm(const CacheRmArguments& arguments) {
  ISOCOST_ASSIGN(const RemovedEntries removed,
                 remove_cached(arguments.directory, arguments.prefix));
  if (arguments.json) {
    print_json({{"removed", removed.entries},
                {"disk_bytes", removed.disk_bytes},
                {"in_use", removed.in_use}});
    return kDone;
  }
  std::printf(
      "removed: %lld, %.3f MB on the disk%s\n", static_cast<long long>(removed.entries),
      megabytes(removed.disk_bytes),
      removed.in_use == 0 ? "" : ("; in use, and left: " + std::to_string(removed.in_use)).c_str());
  return kDone;
}

// Returns kFailed if something was damaged.
Result<int> cache_verify(const CacheArguments& arguments) {
  std::vector<std::string> damage;
  ISOCOST_ASSIGN(const CacheCheck check,
                 verify_cache(arguments.directory, [&](std::string_view what) {
                   damage.push_back(printable_utf8(what));
                 }));
  if (arguments.json) {
    print_json({{"entries", check.entries},
                {"ranges", check.ranges},
                {"bytes", check.bytes},
                {"damaged", check.damaged},
                {"damage", damage}});
  } else {
    for (const std::string& what : damage) std::printf("%s\n", what.c_str());
    std::printf("%s in %lld %s, %.3f MB read, %lld damaged%s\n",
                counted(static_cast<std::uint64_t>(check.ranges), "range").c_str(),
                static_cast<long long>(check.entries), check.entries == 1 ? "entry" : "entries",
                megabytes(check.bytes), static_cast<long long>(check.damaged),
                check.damaged == 0 ? "" : " and removed");
  }
  return check.damaged == 0 ? kDone : kFailed;
}

}  // namespace

void add_cache(CLI::App& app, Run& run) {
  CLI::App* cache =
      app.add_subcommand("cache", "Look at the cache of shards on servers, check it, empty it.");
  cache->require_subcommand(1);
  add_command<CacheArguments>(
      *cache, run,
      {.name = "ls",
       .description = "List the entries of a cache, the one that was used last first.",
       .footer = "Examples:\n  isocost cache ls /fast/isocost\n"
                 "  isocost cache ls /fast/isocost --json"},
      cache_ls);
  add_command<CacheRmArguments>(
      *cache, run,
      {.name = "rm",
       .description =
           "Remove entries of a cache, all or those of a prefix. Jobs that use it go on.",
       .footer = "Examples:\n  isocost cache rm /fast/isocost\n"
                 "  isocost cache rm /fast/isocost --prefix s3://bucket/train/"},
      cache_rm);
  add_command<CacheArguments>(
      *cache, run,
      {.name = "verify",
       .description = "Read all of a cache, and remove what is not as it was stored.",
       .footer = "Examples:\n  isocost cache verify /fast/isocost\n"
                 "  isocost cache verify /fast/isocost --json"},
      cache_verify);
}

}  // namespace isocost::cli
