#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/records/internal/media_path.h"
#include "loader/dataset/records/record_range.h"
#include "loader/dataset/records/sample_input.h"

namespace isocost {

/// Turns the records of one file into samples. The first record that has the keys of one of these
/// forms decides which form all have:
///
/// - a manifest line, with "key" and "parts";
/// - a conversation, with "conversations" or "messages";
/// - a question and its answer (instruction_turns.h), which becomes a conversation;
/// - media with a caption: "file_name", "image", "video" or "audio" (or their plurals), and "text"
///   or "caption".
///
/// Single-thread.
class RecordForms {
 public:
  /// Four more than the JSON part of a sample may have.
  static constexpr std::size_t kMaxDepth = 68;

  /// Relative paths of media start at `root`.
  RecordForms(const std::filesystem::path& root, bool number_keys,
              RecordForm form = RecordForm::kUnknown)
      : paths_(root, /*may_leave=*/false),
        manifest_paths_(root, /*may_leave=*/true),
        number_keys_(number_keys),
        form_(form) {}
  /// Reads records that gave samples before, without a look at their files.
  static RecordForms of_indexed(RecordForm form);
  /// Returns the form whose keys a record has.
  static RecordForm form_of(std::string_view record);

  /// Returns the sample of a record. `number` becomes its key with `number_keys`, and if it has no
  /// "id". Errors: kCorrupt, without the position.
  Result<InputSample> read(std::string record, std::uint64_t number);

  /// Returns the form of the records that were read.
  RecordForm form() const { return form_; }
  /// Returns the key of the last record; empty if it is unknown.
  const std::string& key() const { return key_; }
  void forget_key() { key_.clear(); }
  /// Returns sentences on what was read otherwise than it is written, with counts.
  std::vector<std::string> remarks() const;

 private:
  static RecordForm detect(const nlohmann::ordered_json& object);
  Result<std::string> key_of(const nlohmann::ordered_json& object, std::uint64_t number) const;
  Result<InputSample> sample(nlohmann::ordered_json object, std::string record);
  Result<InputSample> manifest(const nlohmann::ordered_json& object);
  Result<InputPart> manifest_part(const nlohmann::ordered_json& part);
  Result<InputSample> conversation(nlohmann::ordered_json object, std::string record);
  Result<InputSample> instruction(nlohmann::ordered_json object);
  Result<InputSample> caption(nlohmann::ordered_json object);

  MediaPaths paths_;
  MediaPaths manifest_paths_;
  bool number_keys_ = false;
  RecordForm form_ = RecordForm::kUnknown;
  std::string key_;
  std::size_t several_answers_ = 0;       // records
  std::size_t without_an_assistant_ = 0;  // conversations
};

}  // namespace isocost
