#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/catalogue/shard_selection.h"
#include "loader/dataset/catalogue/weighted_samples.h"
#include "loader/dataset/index/index_format.h"
#include "loader/dataset/stores/file_stamp.h"
#include "loader/dataset/tokens/tokenizer_identity.h"

namespace isocost {

/// A row of a data set's table: all that a start needs of a shard and its usable samples, so that
/// it need not open the shard's index. Value type.
struct ShardRow {
  // The files that it was made from.
  IndexIdentity identity;      ///< That of the index; of an object with its stamp at this start.
  std::uint8_t directory = 0;  ///< Which of the root's directories of indexes has the files.
  FileStamp index;             ///< Stamp of the index file; zeros: there is none.
  FileStamp tokens;            ///< Stamp of the file of tokens; zeros: none are used.

  // The shard.
  std::uint64_t content_hash = 0;
  ShardCondition condition = ShardCondition::kWhole;
  bool has_end_mark = true;
  std::uint64_t samples = 0;  ///< Those that indexing found good.
  std::uint64_t bad = 0;      ///< Those that indexing found bad.
  std::uint64_t samples_when_whole = 0;
  std::string problem;
  std::string unread;
  std::vector<IndexedRemark> remarks = {};
  std::shared_ptr<const TokenizerIdentity> tokenizer = nullptr;  ///< Null: its own text is used.

  // Its usable samples.
  std::uint64_t usable = 0;
  std::uint64_t keys_hash = 0;
  std::uint64_t cuts = 0;
  std::uint64_t cuts_hash = 0;
  std::uint64_t text_tokens = 0;  ///< Their tokens without placeholders; 0 without tokens.
  WeightedSamples weighted = {};  ///< `first` counts from the shard's first usable sample.

  bool has_index_file() const { return index != FileStamp{}; }
};

/// Returns the row of a shard. Its time is proportional to the samples.
ShardRow row_of(const Shard& shard, const ShardSelection& selection);

/// Returns whether an index is of the state of a shard that a row was made of. `place` is the
/// shard's.
bool is_of_row(const IndexView& index, const ShardRow& row, const ShardPlace& place);

}  // namespace isocost
