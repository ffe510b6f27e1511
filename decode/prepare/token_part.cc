#include "decode/prepare/token_part.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/tensor_schema.h"
#include "decode/bytes/media_bytes.h"
#include "decode/prepare/recipe_family.h"
#include "decode/shape/tokens.h"

namespace isocost {
namespace {

using MediaTable = std::span<const MediaTokens>;

const MediaTokens* find_media(MediaTable media, std::int64_t id) {
  const auto found = std::ranges::find(media, id, &MediaTokens::placeholder_id);
  return found == media.end() ? nullptr : &*found;
}

Status check_placeholders(const Tokens& tokens, const SamplePlan& plan, const MediaTokens& media) {
  const auto placeholders = std::ranges::count(tokens.ids, media.placeholder_id());
  std::int64_t parts = 0;
  std::int64_t wanted = 0;
  for (const PartPlan& part : std::span(plan.parts).subspan(1)) {  // the first is the text
    if (part.modality != media.modality) continue;
    ++parts;
    wanted += part.placeholders;
  }
  if (placeholders == wanted) return {};
  const std::string each = wanted == parts ? "" : ", which takes " + std::to_string(wanted);
  return corrupt("its text has " + counted(placeholders, "placeholder") + " for " +
                 counted(parts, modality_name(media.modality)) + each);
}

// Checks that the part holds what the sidecar counted, since the plan has made room for just that.
Status check_tokens(const Tokens& tokens, const SamplePlan& plan, MediaTable media) {
  for (const MediaTokens& each : media) ISOCOST_TRY(check_placeholders(tokens, plan, each));
  std::int64_t text = 0;
  std::int64_t labelled = 0;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const bool is_medium = find_media(media, tokens.ids[i]) != nullptr;
    if (tokens.labelled[i] && (is_medium || i == 0)) {
      return corrupt("its tokens have a label that nothing can predict");
    }
    text += is_medium ? 0 : 1;
    labelled += tokens.labelled[i] ? 1 : 0;
  }
  const PartPlan& counted_part = plan.parts.front();
  if (text == counted_part.tokens && labelled == counted_part.label_tokens &&
      tokens.weights.empty() == !counted_part.weighted) {
    return {};
  }
  return corrupt("its tokens are not those that were counted");
}

// Checks the order of media. If modalities have the same id the model takes their pictures in
// the text's order, which must then be the parts' order.
Status check_order(const Tokens& tokens, const SamplePlan& plan, MediaTable media) {
  std::vector<Modality> in_parts;
  for (const PartPlan& part : std::span(plan.parts).subspan(1)) {
    in_parts.insert(in_parts.end(), static_cast<std::size_t>(part.placeholders), part.modality);
  }
  std::size_t at = 0;
  for (const std::uint32_t id : tokens.ids) {
    const MediaTokens* medium = find_media(media, id);
    if (medium == nullptr) continue;
    const Modality there = in_parts.at(at++);
    if (there == medium->modality) continue;
    const auto same = [&](const MediaTokens& other) {
      return other.modality == there && other.id == medium->id;
    };
    if (std::ranges::any_of(media, same)) {
      return corrupt(
          "its text has its media in another order than its parts; name parts so that "
          "they sort as in the text");
    }
  }
  return {};
}

/// Returns the weight of each id; ids must be asked for in their order.
class WeightsOf {
 public:
  explicit WeightsOf(const Tokens& tokens) : left_(tokens.weights) {}

  float at(std::size_t id) {
    while (!left_.empty() && left_.front().end <= id) left_ = left_.subspan(1);
    return left_.empty() || id < left_.front().begin ? 1 : left_.front().weight;
  }

 private:
  std::span<const WeightedIds> left_;
};

/// Returns the plans of a modality's parts, one after another, each once for every placeholder.
class PlansOf {
 public:
  explicit PlansOf(const SamplePlan& plan) : plan_(plan) { next_.fill({1, 0}); }

  const PartPlan& next(Modality modality) {
    Cursor& cursor = next_.at(static_cast<std::size_t>(modality));
    while (plan_.parts.at(cursor.part).modality != modality ||
           cursor.taken == plan_.parts[cursor.part].placeholders) {
      cursor = {cursor.part + 1, 0};
    }
    ++cursor.taken;
    return plan_.parts[cursor.part];
  }

 private:
  struct Cursor {
    std::size_t part;
    std::int64_t taken;
  };
  const SamplePlan& plan_;
  std::array<Cursor, kModalities> next_{};
};

void append_medium(const MediaTokens& medium, const PartPlan& plan, SampleTensors& to) {
  if (medium.begin) to.append(*medium.begin, kIgnoredLabel);
  const std::int64_t around = (medium.begin ? 1 : 0) + (medium.end ? 1 : 0);
  to.append_medium(medium.id, plan.tokens / plan.placeholders - around, plan);
  if (medium.end) to.append(*medium.end, kIgnoredLabel);
}

}  // namespace

std::optional<MediaTokens> picture_tokens(Modality modality, std::int64_t image_id,
                                          std::int64_t video_id) {
  if (modality == Modality::kImage) return MediaTokens{modality, image_id};
  if (modality == Modality::kVideo && video_id >= 0) return MediaTokens{modality, video_id};
  return std::nullopt;
}

Result<PartPlan> plan_tokens(const PartShape& shape) {
  if (shape.text_tokens < 0 || shape.text_tokens > shape.encoded_bytes || shape.label_tokens < 0 ||
      shape.label_tokens > shape.text_tokens) {
    return impossible_part(shape, "a possible number of tokens");
  }
  PartPlan plan;
  plan.tokens = shape.text_tokens;
  plan.label_tokens = shape.label_tokens;
  plan.weighted = shape.weighted;
  return plan;
}

Status check_tokens_first(const SampleShape& shape) {
  const bool tokens_first = shape.parts.front().format == MediaFormat::kTokens;
  const auto tokens = std::ranges::count(shape.parts, MediaFormat::kTokens, &PartShape::format);
  if (tokens_first && tokens == 1) return {};
  return Error(ErrorCode::kInvalidArgument,
               "its text has no tokens of this model; isocost tokenize makes them");
}

std::int64_t tokens_working_set_bytes(const PartShape& shape) { return 3 * shape.encoded_bytes; }

Status add_tokens(const PartBytes& bytes, const SamplePlan& plan,
                  std::span<const MediaTokens> media, SampleTensors& to) {
  ISOCOST_TRY(check_size(bytes));
  ISOCOST_ASSIGN(const auto read,
                 read_some(*bytes.source, 0, static_cast<std::size_t>(bytes.source->size())));
  ISOCOST_ASSIGN(const Tokens tokens, decode_tokens(std::as_bytes(std::span(read))));
  ISOCOST_TRY(check_tokens(tokens, plan, media));
  ISOCOST_TRY(check_order(tokens, plan, media));
  PlansOf plans(plan);
  WeightsOf weights(tokens);
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const std::int64_t id = tokens.ids[i];
    if (const MediaTokens* medium = find_media(media, id)) {
      append_medium(*medium, plans.next(medium->modality), to);
    } else {
      to.append(id, tokens.labelled[i] ? id : kIgnoredLabel, 1, weights.at(i));
    }
  }
  return {};
}

}  // namespace isocost
