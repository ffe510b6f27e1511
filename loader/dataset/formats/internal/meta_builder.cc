#include "loader/dataset/formats/internal/meta_builder.h"

#include <fmt/format.h>

#include <utility>

#include "base/utf8.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

bool MetaBuilder::wants_key() const {
  return !open_.empty() && open_.back().value.is(MetaValue::Kind::kMap) && !open_.back().has_key;
}

Status MetaBuilder::count() {
  if (++values_ > kMaxMetaValues) {
    return Error(ErrorCode::kResourceExhausted,
                 fmt::format("it has more than {} values", kMaxMetaValues));
  }
  return {};
}

Status MetaBuilder::add(MetaValue value) {
  if (open_.empty()) {
    root_ = std::move(value);
  } else if (Open& outer = open_.back(); outer.value.is(MetaValue::Kind::kMap)) {
    outer.has_key = false;
    outer.value.append(std::exchange(outer.key, {}), std::move(value));
  } else {
    outer.value.append(std::move(value));
  }
  return {};
}

Status MetaBuilder::scalar(MetaValue value) {
  ISOCOST_TRY(count());
  if (!wants_key()) return add(std::move(value));
  Open& outer = open_.back();
  if (!outer.keys.insert(value.scalar()).second) {
    constexpr std::size_t kShown = 100;
    return corrupt(fmt::format("the key '{}' is there twice",
                               printable_utf8(value.scalar().substr(0, kShown))));
  }
  outer.key = value.scalar();
  outer.has_key = true;
  return {};
}

Status MetaBuilder::begin(MetaValue list_or_map) {
  ISOCOST_TRY(count());
  if (wants_key()) return corrupt("a key is a list or a map");
  if (open_.size() >= kMaxMetaDepth) {
    return Error(ErrorCode::kResourceExhausted,
                 fmt::format("it is nested deeper than {} levels", kMaxMetaDepth));
  }
  open_.push_back({std::move(list_or_map)});
  return {};
}

Status MetaBuilder::end() {
  MetaValue value = std::move(open_.back().value);
  open_.pop_back();
  return add(std::move(value));
}

}  // namespace isocost
