#include "loader/dataset/tokens/truncation.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "decode/shape/tokens.h"
#include "loader/dataset/tokens/sample_parts.h"

namespace isocost {
namespace {

// Returns the place of a cut at the end of a turn, which is the `turns`th.
TokenCut place_of(const TurnEnd& turn, std::size_t turns, const Tokens& tokens) {
  const auto weights =
      std::ranges::partition_point(tokens.weights,
                                   [&](const WeightedIds& each) { return each.begin < turn.ids; }) -
      tokens.weights.begin();
  return {turn.ids, static_cast<std::uint32_t>(turns), static_cast<std::uint32_t>(weights)};
}

}  // namespace

Truncation truncate_sample(const IndexView& index, const TokenFile& tokens, std::uint64_t sample,
                           const ShapeCheck& check_shape) {
  const auto why_not_cut = [&](const TurnCut* cut) {
    return check_shape(SampleParts(index, &tokens, sample, cut).shape());
  };
  const auto decoded = decode_tokens(tokens.entry(sample));
  if (!decoded) return {.cut = std::nullopt, .reason = decoded.error().message()};
  const std::vector<bool>& labelled = decoded->labelled;
  std::string reason;
  auto labels = std::count(labelled.begin(), labelled.end(), true);
  auto last = labelled.end();
  std::size_t turns = decoded->turns.size();
  for (; turns > 0; --turns) {
    const TurnEnd& turn = decoded->turns[turns - 1];
    const auto end = labelled.begin() + static_cast<std::ptrdiff_t>(turn.ids);
    labels -= std::count(end, last, true);
    last = end;
    if (labels == 0) break;
    const TurnCut cut{.end = turn, .at = place_of(turn, turns, *decoded), .label_tokens = labels};
    reason = why_not_cut(&cut);
    if (reason.empty()) return {.cut = cut, .reason = ""};
  }
  if (reason.empty()) {
    reason = why_not_cut(nullptr) + " (no turn to cut it at has labels before it)";
  } else if (turns == 0) {
    reason = "cut to its first turns it still " + reason;
  } else {
    reason = "cut to its first turns with labels it still " + reason +
             ", and cut before these it has no labels, as after turns of weight 0";
  }
  return {.cut = std::nullopt, .reason = std::move(reason)};
}

}  // namespace isocost
