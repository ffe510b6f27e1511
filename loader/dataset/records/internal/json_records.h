#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "loader/dataset/records/record_range.h"
#include "loader/dataset/stores/sequential_reader.h"

namespace isocost {

/// Returns the error of a record that is not as it must be.
inline Error corrupt_record(std::string what) { return {ErrorCode::kCorrupt, std::move(what)}; }

/// The records of a JSON file, one at a time: the lines of JSON Lines, or the elements of an array
/// if the file begins with '['. The file may be compressed by gzip or zstd. Holds one record, never
/// the file. Single-thread.
class JsonRecords {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;  ///< Limit of one record.

  /// Opens a file. Errors: kNotFound, kIo; kCorrupt for bytes of another format, compression or
  /// encoding than text in UTF-8, which is named.
  static Result<std::unique_ptr<JsonRecords>> open(const std::filesystem::path& path);
  /// Reads the plain bytes of the file. Errors: kIo; kCorrupt as above.
  static Result<std::unique_ptr<JsonRecords>> open(const std::filesystem::path& path,
                                                   std::shared_ptr<const ByteSource> bytes);
  /// Reads a range of the plain bytes of the file. Errors: the same for the range that begins the
  /// file, else none.
  static Result<std::unique_ptr<JsonRecords>> open_range(const std::filesystem::path& path,
                                                         std::shared_ptr<const ByteSource> bytes,
                                                         const RecordRange& range);

  /// Returns the text of the next record, which need not be JSON, or nothing at the end. Skips
  /// blank lines. Errors: kCorrupt for a record beyond kMaxBytes, and for an array that does not
  /// end or that is followed by other bytes; the next call reads on. kIo, also for a compressed
  /// stream that is cut off or damaged.
  Result<std::optional<std::string>> next();

  /// Returns the line of the last record, or the number of the last element, from 1.
  std::uint64_t number() const { return number_; }
  /// Returns the location of the last record: "a.jsonl:17", or "a.json:17, element 3".
  std::string location() const;

  /// Returns the bytes of the last record in the plain file.
  RecordBytes record() const { return record_; }
  /// Returns what was not read so far as a range, whose `end` and `form` are not set.
  RecordRange rest() const;
  /// Returns whether the array has ended: what follows is no element.
  bool is_behind_array() const { return array_ended_; }

  /// Return how many bytes of the file, as it is on disk, were read, and how many it has.
  std::uint64_t done() const { return file_->done(); }
  std::uint64_t total() const { return file_->total(); }

 private:
  explicit JsonRecords(std::filesystem::path path) : path_(std::move(path)) {}
  static Result<std::unique_ptr<JsonRecords>> begin(std::unique_ptr<JsonRecords> records);
  void detect();
  void fill();
  int peek();
  int get();
  void skip_spaces();
  Result<std::optional<std::string>> next_line();
  Result<std::optional<std::string>> next_element();
  Result<std::optional<std::string>> behind_array();

  std::filesystem::path path_;
  std::unique_ptr<SequentialReader> file_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::int64_t buffer_offset_ = 0;  // of the buffer's first byte in the plain file
  RecordBytes record_;
  std::uint64_t line_ = 1;  // line of the next byte
  std::uint64_t record_line_ = 0;
  std::uint64_t number_ = 0;
  bool is_array_ = false;
  bool array_ended_ = false;
  bool ends_behind_separator_ = false;  // whether another range follows
  bool ended_ = false;
  std::optional<Error> failure_;
};

}  // namespace isocost
