#include "cli/data/parquet_records.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/counted.h"
#include "cli/common/python_command.h"

namespace isocost::cli {
namespace {

namespace fs = std::filesystem;

// Files of isocost/parquet/conversion.py.
constexpr const char* kRecords = "records.jsonl";
constexpr const char* kRows = "rows.json";
constexpr const char* kState = "state.json";

bool is_parquet(const fs::path& file) {
  constexpr std::string_view kMark = "PAR1";
  std::array<char, kMark.size()> begin{};
  std::ifstream(file, std::ios::binary).read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()) == kMark;
}

// Returns the Parquet files of a directory.
Result<std::vector<fs::path>> listed(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".parquet" && entry.is_regular_file(error)) {
      files.push_back(entry.path());
    }
  }
  if (error) return Error(ErrorCode::kIo, directory.string() + ": " + error.message());
  std::ranges::sort(files);
  return files;
}

// Progress and error that the process tells.
struct Told {
  std::uint64_t done = 0;
  std::uint64_t groups = 0;
  std::optional<Error> error;

  void take(std::string_view line, const ProgressSink& progress);
};

void Told::take(std::string_view line, const ProgressSink& progress) {
  constexpr std::string_view kError = "error: ";
  if (line.starts_with(kError)) {
    const auto told = nlohmann::json::parse(line.substr(kError.size()), nullptr, false);
    if (!told.is_array() || told.size() != 2) return;
    const bool of_machine = told[0].get<bool>();
    error.emplace(of_machine ? ErrorCode::kIo : ErrorCode::kInvalidArgument,
                  told[1].get<std::string>());
    return;
  }
  const char* const end = line.end();
  const auto first = std::from_chars(line.begin(), end, done);
  if (first.ec != std::errc() || first.ptr == end) return;
  std::from_chars(first.ptr + 1, end, groups);
  if (progress) progress(done, groups, "converting row groups");
}

std::vector<std::string> words_of(const std::vector<fs::path>& files,
                                  const ParquetOptions& options) {
  std::vector<std::string> words = {"--directory=" + options.directory.string(),
                                    "--workers=" + std::to_string(options.workers)};
  for (const std::string& column : options.ignored_columns) {
    words.push_back("--ignore-column=" + column);
  }
  words.emplace_back("--");
  for (const fs::path& file : files) words.push_back(file.string());
  return words;
}

// Removes directories that were made for nothing: a file was refused, before any row was converted.
void remove_unused(const fs::path& directory, const std::vector<fs::path>& made) {
  std::error_code ignored;
  if (fs::exists(directory / kState, ignored)) return;
  fs::remove_all(directory, ignored);
  for (const fs::path& each : made) fs::remove(each, ignored);  // removes empty ones only
}

}  // namespace

Result<std::vector<fs::path>> parquet_files(const std::vector<fs::path>& sources) {
  std::vector<fs::path> files;
  std::optional<fs::path> other;
  for (const fs::path& source : sources) {
    std::error_code error;
    if (fs::is_directory(source, error)) {
      ISOCOST_ASSIGN(const std::vector<fs::path> found, listed(source));
      files.insert(files.end(), found.begin(), found.end());
      if (found.empty() && !other) other = source;
    } else if (is_parquet(source)) {
      files.push_back(source);
    } else if (!other) {
      other = source;
    }
  }
  if (other && (!files.empty() || sources.size() > 1)) {
    return Error(ErrorCode::kInvalidArgument,
                 other->string() +
                     " is neither a Parquet file nor a directory of them: several sources are all "
                     "Parquet; make shards of other files one by one, with --name");
  }
  for (auto file = files.begin(); file != files.end(); ++file) {
    if (std::find(files.begin(), file, *file) != file) {
      return Error(ErrorCode::kInvalidArgument, file->string() + " is named twice");
    }
  }
  return files;
}

fs::path directory_of_all(const std::vector<fs::path>& files) {
  fs::path common = fs::absolute(files.front()).lexically_normal().parent_path();
  for (const fs::path& file : files) {
    const fs::path path = fs::absolute(file).lexically_normal();
    while (std::mismatch(common.begin(), common.end(), path.begin(), path.end()).first !=
           common.end()) {
      common = common.parent_path();
    }
  }
  return common;
}

Result<ParquetRecords> ParquetRecords::convert(const std::vector<fs::path>& files,
                                               const ParquetOptions& options) {
  std::vector<fs::path> made;
  std::error_code error;
  for (fs::path path = options.directory.parent_path(); !path.empty() && !fs::exists(path, error);
       path = path.parent_path()) {
    made.push_back(path);
  }
  fs::create_directories(options.directory, error);
  if (error) return Error(ErrorCode::kIo, options.directory.string() + ": " + error.message());
  Told told;
  const auto status = call_python(
      {"isocost make-shards", "isocost.parquet.conversion", "pyarrow"}, words_of(files, options),
      [&](std::string_view line) { told.take(line, options.progress); }, options.stop);
  if (!status || *status != 0) remove_unused(options.directory, made);
  // The first row groups may be on disk before they are told of.
  if (options.stop.stop_requested() && fs::exists(options.directory / kState, error)) {
    const std::string done =
        told.done == 0 ? "some row groups"
                       : std::to_string(told.done) + " of " + counted(told.groups, "row group");
    return Error(ErrorCode::kCancelled, "stopped after " + done + ", which stay in " +
                                            options.directory.string() +
                                            ": the same command goes on there");
  }
  if (!status) return status.error();
  if (told.error) return *told.error;
  if (*status != 0) {
    return Error(
        ErrorCode::kInternal,
        "the process that converts Parquet files ended with status " + std::to_string(*status));
  }
  ParquetRecords records(options.directory);
  ISOCOST_TRY(records.read_rows(files));
  return records;
}

Status ParquetRecords::read_rows(const std::vector<fs::path>& files) {
  std::ifstream file(directory_ / kRows);
  const auto rows = nlohmann::json::parse(file, nullptr, false);
  if (!rows.is_array()) {
    return Error(ErrorCode::kIo, (directory_ / kRows).string() + ": cannot be read");
  }
  for (std::size_t i = 0; i < rows.size() && i < files.size(); ++i) {
    rows_.push_back({files[i].string(), rows[i].get<std::uint64_t>()});
  }
  return {};
}

fs::path ParquetRecords::file() const { return directory_ / kRecords; }

std::string ParquetRecords::row(std::uint64_t line) const {
  for (const auto& [file, count] : rows_) {
    if (line <= count) return file + ", row " + std::to_string(line);
    line -= count;
  }
  return file().string();
}

std::string ParquetRecords::with_rows(const std::string& text) const {
  const std::string mark = file().string() + ":";
  std::string result;
  std::size_t at = 0;
  for (std::size_t found = text.find(mark); found != std::string::npos;
       found = text.find(mark, at)) {
    const char* const digits = text.data() + found + mark.size();
    std::uint64_t line = 0;
    const auto [end, error] = std::from_chars(digits, text.data() + text.size(), line);
    result += text.substr(at, found - at);
    result += error == std::errc() ? row(line) : mark;
    at = static_cast<std::size_t>(end - text.data());
  }
  return result + text.substr(at);
}

void ParquetRecords::remove() const {
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

}  // namespace isocost::cli
