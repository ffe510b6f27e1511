#include "loader/dataset/decode_options.h"

#include "base/range.h"

namespace isocost {

Status DecodeOptions::validate() const {
  ISOCOST_TRY(check_range("workers", workers, 0, 1024));
  ISOCOST_TRY(check_range("memory", memory, kMiB, std::int64_t{1} << 50));
  ISOCOST_TRY(check_range("max_pixels", max_pixels, 1, std::int64_t{1} << 40));
  ISOCOST_TRY(check_range("io_timeout", io_timeout, std::chrono::milliseconds(0),
                          std::chrono::hours(24 * 7)));
  return recipe.validate();
}

}  // namespace isocost
