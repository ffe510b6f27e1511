#include "decode/internal/token_part.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "base/counted.h"
#include "base/tensor_schema.h"
#include "decode/internal/media_bytes.h"
#include "decode/internal/recipe_family.h"
#include "decode/tokens.h"

namespace isocost {
namespace {

// What the sidecar counted must be what it holds, since the plan has made room for just that.
Status check_tokens(const Tokens& tokens, const SamplePlan& plan, std::int64_t placeholder) {
  std::int64_t placeholders = 0;
  std::int64_t labelled = 0;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const bool is_image = tokens.ids[i] == placeholder;
    if (tokens.labelled[i] && (is_image || i == 0)) {
      return corrupt("its tokens have a label that nothing can predict");
    }
    placeholders += is_image ? 1 : 0;
    labelled += tokens.labelled[i] ? 1 : 0;
  }
  const std::int64_t images = std::ssize(plan.parts) - 1;  // the first part is the text
  if (placeholders != images) {
    return corrupt("its text has " +
                   counted(static_cast<std::size_t>(placeholders), "placeholder") + " for " +
                   counted(static_cast<std::size_t>(images), "image"));
  }
  const PartPlan& text = plan.parts.front();
  if (std::ssize(tokens.ids) - images != text.tokens || labelled != text.label_tokens) {
    return corrupt("its tokens are not those that were counted");
  }
  return {};
}

void append_image(const ImageTokens& image, std::int64_t tokens, SampleTensors& to) {
  if (image.begin) to.append(*image.begin, kIgnoredLabel);
  const std::int64_t around = (image.begin ? 1 : 0) + (image.end ? 1 : 0);
  to.append(image.id, kIgnoredLabel, tokens - around);
  if (image.end) to.append(*image.end, kIgnoredLabel);
}

}  // namespace

Result<PartPlan> plan_tokens(const PartShape& shape) {
  if (shape.text_tokens < 0 || shape.text_tokens > shape.encoded_bytes || shape.label_tokens < 0 ||
      shape.label_tokens > shape.text_tokens) {
    return impossible_part(shape, "a possible number of tokens");
  }
  PartPlan plan;
  plan.tokens = shape.text_tokens;
  plan.label_tokens = shape.label_tokens;
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

Status add_tokens(const PartBytes& bytes, const SamplePlan& plan, const ImageTokens& image,
                  SampleTensors& to) {
  ISOCOST_TRY(check_size(bytes));
  ISOCOST_ASSIGN(const auto read,
                 read_some(*bytes.source, 0, static_cast<std::size_t>(bytes.source->size())));
  ISOCOST_ASSIGN(const Tokens tokens, decode_tokens(std::as_bytes(std::span(read))));
  ISOCOST_TRY(check_tokens(tokens, plan, image.id));
  auto part = plan.parts.begin();
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const std::int64_t id = tokens.ids[i];
    if (id == image.id) {
      ++part;
      append_image(image, part->tokens, to);
    } else {
      to.append(id, tokens.labelled[i] ? id : kIgnoredLabel);
    }
  }
  return {};
}

}  // namespace isocost
