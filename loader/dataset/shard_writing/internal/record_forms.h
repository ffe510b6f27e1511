#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "loader/dataset/shard_writing/internal/sample_input.h"

namespace isocost {

/// Turns the records of one file into samples. The first record that has the keys of one of these
/// forms decides which form all have:
///
/// - a manifest line, with "key" and "parts";
/// - a conversation, with "conversations" or "messages";
/// - media with a caption: "file_name", "image", "video" or "audio" (or their plurals), and "text"
///   or "caption".
///
/// Single-thread.
class RecordForms {
 public:
  /// Four more than the JSON part of a sample may have.
  static constexpr std::size_t kMaxDepth = 68;

  /// Relative paths of media start at `root`.
  RecordForms(std::filesystem::path root, bool number_keys)
      : root_(std::move(root)), number_keys_(number_keys) {}

  /// Returns the sample of a record. `number` becomes its key with `number_keys`, and if it has no
  /// "id". Errors: kCorrupt, without the position.
  Result<InputSample> read(std::string record, std::uint64_t number);

 private:
  enum class Form { kManifest, kConversation, kCaption };

  static std::optional<Form> detect(const nlohmann::ordered_json& object);
  Result<InputSample> sample(Form form, nlohmann::ordered_json object, std::string record) const;
  Result<InputSample> manifest(const nlohmann::ordered_json& object) const;
  Result<InputPart> manifest_part(const nlohmann::ordered_json& part) const;
  Result<InputSample> conversation(const nlohmann::ordered_json& object, std::string record) const;
  Result<InputSample> caption(nlohmann::ordered_json object) const;

  std::filesystem::path root_;
  bool number_keys_ = false;
  std::optional<Form> form_;
};

}  // namespace isocost
