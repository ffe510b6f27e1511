#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sample_part.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/tokens/tokenized_sample.h"
#include "loader/dataset/tokens/tokenizer_identity.h"

namespace isocost {

/// The contents of a sample that become tokens.
struct SampleText {
  std::string key;                 ///< For messages: with '?' for what is not printable.
  std::vector<SamplePart> media;   ///< The sample's other parts, in order: see TokenPass::open.
  std::string json;                ///< The JSON part; empty: there is none.
  std::vector<std::string> texts;  ///< The sample's text parts, and the "text" of its JSON.
  std::string reason;              ///< Why the model cannot take its media; empty: it can.
};

/// Writes the tokens of a data set: a file for each shard, beside its index. The tokenizer is the
/// caller's. Const-safe except for `write`: one call at a time for each shard.
class TokenPass {
 public:
  /// Indexes shards without an index. Texts have the recipe's descriptions of media where the
  /// model's text depends on them; elsewhere their modalities alone. `options`: as in
  /// TokenizerIdentity; files that were made with other options are not current. Errors: those of
  /// Dataset::open and TokenizerIdentity::of_model; kIo if there is no directory where an index can
  /// be kept.
  static Result<std::unique_ptr<TokenPass>> open(const std::string& data,
                                                 const std::filesystem::path& model,
                                                 std::string options,
                                                 const DatasetOptions& dataset);
  /// Does the same for several sources.
  static Result<std::unique_ptr<TokenPass>> open(const DataSources& data,
                                                 const std::filesystem::path& model,
                                                 std::string options,
                                                 const DatasetOptions& dataset);
  virtual ~TokenPass() = default;

  virtual std::size_t shards() const = 0;
  virtual const std::string& shard_name(std::size_t shard) const = 0;
  virtual std::uint64_t samples(std::size_t shard) const = 0;
  /// Returns whether the shard has the tokens that a pass would write.
  virtual bool is_current(std::size_t shard) const = 0;
  /// Returns whether it has tokens of the model, whatever the options that they were made with.
  virtual bool is_usable(std::size_t shard) const = 0;
  /// Returns how many of its samples have tokens; 0 if it is not usable.
  virtual std::uint64_t tokenized(std::size_t shard) const = 0;
  /// Returns why the tokens that the shard has are not usable, as a phrase that follows "its tokens
  /// ...", with the options that they were made with. Empty: they are usable, or there are none.
  virtual std::string why_stale(std::size_t shard) const = 0;
  /// Returns the options (TokenizerIdentity) that the tokens it has were made with, of this model
  /// or another, current or not; nothing if it has none that can be read.
  virtual std::optional<std::string> recorded_options(std::size_t shard) const = 0;
  /// Returns a sentence on what no model sees of the data set; empty: it sees everything.
  virtual const std::string& unread() const = 0;
  /// Returns the directory of the files.
  virtual const std::filesystem::path& directory() const = 0;
  /// Reads the texts of a shard, in the order of its index. Errors: those of reading a shard.
  virtual Result<std::vector<SampleText>> texts(std::size_t shard) const = 0;
  /// Replaces the shard's file. `samples` is as long as `texts(shard)`. Errors: kInvalidArgument
  /// for another number, and for a sample with fewer tokens than media; kIo.
  virtual Status write(std::size_t shard, std::span<const TokenizedSample> samples) = 0;
};

}  // namespace isocost
