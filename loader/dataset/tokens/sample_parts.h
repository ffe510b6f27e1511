#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "decode/shape/sample_shape.h"
#include "loader/dataset/index/index_format.h"
#include "loader/dataset/tokens/token_file.h"
#include "loader/dataset/tokens/turn_cut.h"

namespace isocost {

/// The parts of a sample that a model sees: those of the index; or, where the shard has tokens, the
/// tokens and then the indexed media, up to the sample's cut. Immutable; const-safe. A view.
class SampleParts {
 public:
  /// Views a sample, counted within its shard. `tokens` is null if the shard's own text is used,
  /// and `cut`, which needs tokens, if the sample is whole. All must outlive the object.
  SampleParts(const IndexView& index, const TokenFile* tokens, std::uint64_t sample,
              const TurnCut* cut)
      : index_(index), tokens_(tokens), sample_(sample), cut_(cut) {}

  SampleShape shape() const;
  /// Returns the number in the index of a part of `shape`; nothing for the tokens.
  std::optional<std::uint64_t> indexed(std::size_t part) const;
  std::string_view name(std::size_t part) const;
  /// Returns whether a turn has a weight in the loss other than 0 and 1.
  bool has_weighted_turns() const { return tokens_ != nullptr && shape_of_tokens().weighted; }

 private:
  PartShape shape_of_tokens() const;
  // Calls `visit` with the number in the index and the shape of each indexed part of `shape`, until
  // it returns false.
  template <typename Visit>
  void for_each_indexed(Visit visit) const;

  const IndexView& index_;
  const TokenFile* const tokens_;
  const std::uint64_t sample_;
  const TurnCut* const cut_;
};

}  // namespace isocost
