#include "loader/dataset/catalogue/shard.h"

#include <utility>

namespace isocost {

Shard::Shard(ShardPlace place, std::shared_ptr<const ShardIndex> index,
             std::shared_ptr<const TokenFile> tokens, std::string_view source)
    : place_(std::move(place)),
      name_(name_in_source(source, place_.name)),
      index_(std::move(index)),
      tokens_(std::move(tokens)) {}

std::vector<BadSample> Shard::bad() const {
  std::vector<BadSample> bad;
  bad.reserve(static_cast<std::size_t>(view().bad()));
  for (std::uint64_t i = 0; i < view().bad(); ++i) {
    bad.push_back({name_, std::string(view().bad_key(i)), std::string(view().bad_part(i)),
                   std::string(view().bad_reason(i))});
  }
  return bad;
}

Status Shard::check_mapped_files() const {
  if (tokens_ && tokens_->damaged()) {
    return Error(
        ErrorCode::kCorrupt,
        tokens_->path().string() + ": it was cut while it was in use; run isocost tokenize again");
  }
  if (!index_->damaged()) return {};
  return Error(ErrorCode::kCorrupt,
               index_->file().string() +
                   ": it was cut while it was in use; start again, and the shard "
                   "is indexed anew");
}

}  // namespace isocost
