#include "loader/dataset/tokens/sample_parts.h"

#include <array>

#include "decode/shape/tokens.h"

namespace isocost {

template <typename Visit>
void SampleParts::for_each_indexed(Visit visit) const {
  std::array<std::uint32_t, kModalities> seen{};
  const std::uint64_t end = index_.first_part(sample_ + 1);
  for (std::uint64_t i = index_.first_part(sample_); i < end; ++i) {
    const PartShape part = index_.part_shape(i);
    const std::uint32_t nth = seen.at(static_cast<std::size_t>(part.modality))++;
    if (tokens_ != nullptr && part.modality == Modality::kText) continue;
    if (cut_ != nullptr && nth >= cut_->media_before(part.modality)) continue;
    if (!visit(i, part)) return;
  }
}

PartShape SampleParts::shape_of_tokens() const {
  PartShape text = tokens_->shape(sample_);
  if (cut_ == nullptr) return text;
  text.text_tokens = cut_->end.ids;
  text.text_tokens -= cut_->end.placeholders;
  text.label_tokens = cut_->label_tokens;
  text.weighted = cut_->at.weights > 0;
  text.encoded_bytes = encoded_tokens_bytes(cut_->at.ids, cut_->at.turns, cut_->at.weights);
  return text;
}

SampleShape SampleParts::shape() const {
  SampleShape shape;
  shape.weight = index_.weight(sample_);
  if (tokens_ != nullptr) shape.parts.push_back(shape_of_tokens());
  for_each_indexed([&](std::uint64_t /*i*/, const PartShape& part) {
    shape.parts.push_back(part);
    return true;
  });
  return shape;
}

std::optional<std::uint64_t> SampleParts::indexed(std::size_t part) const {
  if (tokens_ == nullptr) return index_.first_part(sample_) + part;
  if (part == 0) return std::nullopt;
  std::optional<std::uint64_t> found;
  std::size_t media = 0;
  for_each_indexed([&](std::uint64_t i, const PartShape& /*shape*/) {
    found = i;
    return ++media < part;
  });
  return found;
}

std::string_view SampleParts::name(std::size_t part) const {
  const auto i = indexed(part);
  return i ? index_.part_name(*i) : "tokens";
}

}  // namespace isocost
