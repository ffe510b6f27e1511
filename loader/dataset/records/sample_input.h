#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/byte_source.h"
#include "base/log.h"
#include "base/result.h"
#include "base/sample_part.h"
#include "decode/shape/sample_shape.h"
#include "loader/dataset/formats/ignored_parts.h"
#include "loader/dataset/records/record_range.h"

namespace isocost {

/// A part to write: bytes given in place, or a file.
struct InputPart {
  std::string name;
  std::variant<std::string, std::filesystem::path> body;
  /// The modality that the record states and the content must have. Nothing: any.
  std::optional<Modality> modality = std::nullopt;
  /// Offset in the record of the bytes, if they stand there as they are. Nothing: they do not.
  std::optional<std::int64_t> offset_in_record = std::nullopt;
};

/// Checks that a part's content is of the modality that its record states. Errors: kCorrupt.
Status check_modality(const InputPart& part, const PartShape& content);

struct InputSample {
  std::string key;
  bool key_is_id = false;  ///< Whether the key is the "id" of a record.
  std::vector<InputPart> parts;
  /// Keys of the JSON part that were read to make the sample, although no recipe reads them.
  std::span<const std::string_view> own_keys;
  /// Whether its only text is a conversation, which no recipe without a model's directory reads.
  bool needs_model = false;
};

struct SampleInputOptions {
  std::filesystem::path media_root;  ///< Empty: the directory of the source file.
  bool number_keys = false;          ///< Whether records are named by their number.
  bool class_from_directory =
      false;             ///< Whether a directory's files get a JSON part with their class.
  IgnoredParts ignored;  ///< Files of a directory that are left out.
  LogSink log;
};

/// Reads samples in an order that depends only on the source. Single-thread.
class SampleInput {
 public:
  /// Opens a file of records, or lists a directory. Errors: kNotFound, kIo; kInvalidArgument for an
  /// option that does not apply to the source, and for a directory with captions in a
  /// metadata.jsonl.
  static Result<std::unique_ptr<SampleInput>> open(const std::filesystem::path& source,
                                                   const SampleInputOptions& options);
  /// Reads a range of a plain file of records, which another range may precede. `path` is the file
  /// of which `bytes` are the plain bytes. Errors: kNotFound, kIo, kCorrupt.
  static Result<std::unique_ptr<SampleInput>> open_range(const std::filesystem::path& path,
                                                         std::shared_ptr<const ByteSource> bytes,
                                                         const RecordRange& range,
                                                         const SampleInputOptions& options);
  virtual ~SampleInput() = default;

  /// Returns the next sample, or nothing at the end. Errors: kCorrupt for a bad record; the next
  /// call reads on after it. kIo.
  virtual Result<std::optional<InputSample>> next() = 0;
  /// Returns the location of the last result of `next`, for messages: "manifest.jsonl:17".
  virtual std::string location() const = 0;
  /// Returns the bytes of the last record in the plain file; none for files of a directory.
  virtual RecordBytes record() const = 0;
  /// Returns the form of the records that were read.
  virtual RecordForm form() const = 0;
  /// Returns the key of the last result of `next`, also if that is an error; empty if unknown.
  virtual const std::string& key() const = 0;
  /// Returns sentences on what was read otherwise than the source spells it, with counts.
  virtual std::vector<std::string> remarks() const = 0;
  /// Returns the number of files that were left out, because no file of their sample has an
  /// extension that Isocost reads or because of `ignored`, by extension.
  virtual const std::map<std::string, std::uint64_t>& files_left_out() const = 0;

  /// Return the progress of `next` and its end: bytes of the file of records, or samples.
  virtual std::uint64_t done() const = 0;
  virtual std::uint64_t total() const = 0;
};

}  // namespace isocost
