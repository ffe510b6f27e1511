#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/catalogue/bad_sample.h"
#include "loader/dataset/index/index_file.h"
#include "loader/dataset/index/index_format.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/tokens/sample_parts.h"
#include "loader/dataset/tokens/token_file.h"
#include "loader/dataset/tokens/turn_cut.h"

namespace isocost {

/// A shard that was indexed: its index and its tokens, and what is wrong with it. Immutable;
/// const-safe.
class Shard {
 public:
  /// `tokens` is null if the shard's own text is used.
  /// `source` is the name of its source; empty: the only one.
  Shard(ShardPlace place, std::shared_ptr<const ShardIndex> index,
        std::shared_ptr<const TokenFile> tokens, std::string_view source = {});

  std::filesystem::path path() const { return place_.path(); }
  const ShardPlace& place() const { return place_; }
  /// Returns the name by which samples and messages have it: that of its place, in a mixture after
  /// that of its source.
  const std::string& name() const { return name_; }
  const ShardIndex& index() const { return *index_; }
  const IndexView& view() const { return index_->view(); }
  const std::shared_ptr<const TokenFile>& tokens() const { return tokens_; }
  /// Returns the number of samples that indexing found good.
  std::uint64_t samples() const { return view().samples(); }
  /// Returns the parts of a sample that a model sees. `cut` is null if the sample is whole; it and
  /// the shard must outlive the parts.
  SampleParts parts(std::uint64_t sample, const TurnCut* cut) const {
    return {view(), tokens_.get(), sample, cut};
  }

  /// Returns the samples that indexing found bad.
  std::vector<BadSample> bad() const;
  /// Checks that the files of the index and the tokens were not cut while they are in use. Errors:
  /// kCorrupt with the file.
  Status check_mapped_files() const;

 private:
  ShardPlace place_;
  std::string name_;
  std::shared_ptr<const ShardIndex> index_;
  std::shared_ptr<const TokenFile> tokens_;
};

}  // namespace isocost
