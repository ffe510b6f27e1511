#include "loader/dataset/internal/table_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <system_error>
#include <utility>

#include "base/output_file.h"
#include "loader/dataset/stores/file_stamp.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFolder = "tables";
constexpr const char* kExtension = ".table";

// A table file as a directory lists it.
struct Listed {
  fs::path file;
  FileStamp stamp;
};

// Returns the tables of a directory whose names begin so, the newest first.
std::vector<Listed> tables_of(const fs::path& directory, const std::string& begin) {
  std::vector<Listed> found;
  std::error_code failed;  // there need not be any
  fs::directory_iterator file(directory / kFolder, failed);
  for (; !failed && file != fs::directory_iterator(); file.increment(failed)) {
    const fs::path& path = file->path();
    if (path.extension() != kExtension || !path.filename().string().starts_with(begin)) continue;
    if (const auto stamp = stamp_of(path)) found.push_back({path, *stamp});
  }
  std::ranges::sort(found, [](const Listed& a, const Listed& b) {
    return std::pair(b.stamp.mtime_ns, a.file) < std::pair(a.stamp.mtime_ns, b.file);
  });
  return found;
}

// Reads a file whole.
Result<std::vector<std::byte>> bytes_of(const fs::path& path) {
  constexpr std::int64_t kMost = std::int64_t{4} << 30;
  ISOCOST_ASSIGN(const StampedFile opened, open_regular_file(path));
  if (opened.stamp.bytes > kMost) return Error(ErrorCode::kCorrupt, "broken table: too large");
  std::array<std::byte, kTableHeaderBytes> begin{};
  ISOCOST_ASSIGN(const std::size_t begun, opened.file.read_at(0, begin));
  ISOCOST_TRY(check_table_begin(std::span(begin).first(begun), opened.stamp.bytes));
  std::vector<std::byte> bytes(static_cast<std::size_t>(opened.stamp.bytes));
  ISOCOST_ASSIGN(const std::size_t read, opened.file.read_at(0, bytes));
  bytes.resize(read);
  return bytes;
}

// Removes tables but one, as long as the others and it are larger than that. Returns the bytes that
// were removed.
std::uint64_t remove_beyond(const fs::path& directory, const fs::path& but,
                            std::uint64_t most_bytes) {
  std::uint64_t kept = 0;
  std::uint64_t removed = 0;
  std::vector<Listed> tables = tables_of(directory, "");
  std::ranges::stable_partition(tables, [&](const Listed& table) { return table.file == but; });
  for (const Listed& table : tables) {
    const auto bytes = static_cast<std::uint64_t>(table.stamp.bytes);
    kept += bytes;
    std::error_code failed;
    if (kept <= most_bytes || table.file == but) continue;
    if (fs::remove(table.file, failed) && !failed) removed += bytes;
  }
  return removed;
}

}  // namespace

TableFiles::TableFiles(std::vector<fs::path> directories, TableIdentity identity, LogSink log)
    : directories_(std::move(directories)), identity_(identity), log_(std::move(log)) {}

fs::path TableFiles::file_in(const fs::path& directory) const {
  return directory / kFolder /
         fmt::format("{:016x}-{:016x}{}", identity_.options, identity_.shards, kExtension);
}

std::optional<ShardTable> TableFiles::read(const ProbeLimits& limits) const {
  // The newest first: a directory that can no longer be written may have an older one.
  std::vector<Listed> own;
  for (const fs::path& directory : directories_) {
    const auto stamp = stamp_of(file_in(directory));
    if (!stamp && stamp.error().code() == ErrorCode::kNotFound) continue;
    own.push_back({file_in(directory), stamp.value_or(FileStamp{})});  // reading it says why
  }
  std::ranges::stable_sort(own, std::ranges::greater(),
                           [](const Listed& table) { return table.stamp.mtime_ns; });
  for (const Listed& table : own) {
    if (auto read = this->read(table.file, limits)) return read;
  }
  for (const fs::path& directory : directories_) {
    for (const Listed& other : tables_of(directory, fmt::format("{:016x}-", identity_.options))) {
      if (other.file == file_in(directory)) continue;
      if (auto table = read(other.file, limits)) return table;
    }
  }
  return std::nullopt;
}

std::optional<ShardTable> TableFiles::read(const fs::path& file, const ProbeLimits& limits) const {
  const auto bytes = bytes_of(file);
  if (!bytes && bytes.error().code() == ErrorCode::kNotFound) return std::nullopt;
  auto table = bytes ? decode_table(*bytes, limits) : Result<ShardTable>(bytes.error());
  if (table && table->identity.options == identity_.options) return *std::move(table);
  const std::string why = table ? "it is of other options" : table.error().message();
  log(log_, LogLevel::kWarning,
      fmt::format("{}: {}; the table is made again of the indexes", file.string(), why));
  return std::nullopt;
}

void TableFiles::write(std::span<const std::byte> table, std::uint64_t most_bytes) const {
  std::string refusals;
  for (const fs::path& directory : directories_) {
    const fs::path file = file_in(directory);
    std::error_code ignored;
    fs::create_directories(file.parent_path(), ignored);
    const Status written = replace_file(file, table);
    if (written) {
      remove_beyond(directory, file, most_bytes);
      return;
    }
    refusals += "; " + written.error().message();
  }
  log(log_, LogLevel::kInfo,
      "the table of the data set could not be written, so that the next start opens all indexes" +
          refusals + "; give a directory as index_dir");
}

void TableFiles::prune() const {
  for (const fs::path& directory : directories_) {
    const std::uint64_t removed = remove_beyond(directory, file_in(directory), 0);
    if (removed == 0) continue;
    log(log_, LogLevel::kInfo,
        fmt::format("{}: removed tables of other options, of {} bytes together",
                    (directory / kFolder).string(), removed));
  }
}

}  // namespace isocost
