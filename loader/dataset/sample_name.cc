#include "loader/dataset/sample_name.h"

#include "base/utf8.h"

namespace isocost {

std::string sample_name(std::string_view shard, std::string_view key) {
  return printable_utf8(std::string(shard) + "/" + std::string(key));
}

}  // namespace isocost
