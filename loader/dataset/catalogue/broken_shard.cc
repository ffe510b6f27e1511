#include "loader/dataset/catalogue/broken_shard.h"

#include <fmt/format.h>

#include "base/counted.h"
#include "base/utf8.h"

namespace isocost {

std::string describe(const BrokenShard& shard) {
  std::string text = fmt::format("{}: {}: {}", printable_utf8(shard.name),
                                 shard.lost ? "lost" : "damaged", printable_utf8(shard.reason));
  if (shard.samples_when_whole == 0) {
    return shard.lost
               ? text
               : text + fmt::format("; {} before the damage", counted(shard.samples, "sample"));
  }
  return text + fmt::format("; {} of the {} that it had when it was whole are left", shard.samples,
                            counted(shard.samples_when_whole, "sample"));
}

}  // namespace isocost
