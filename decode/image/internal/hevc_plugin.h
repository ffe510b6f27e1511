#pragma once

#include <cstdint>
#include <optional>

namespace isocost {

/// Makes libheif decode HEVC by libde265, only on the calling thread: the decoder that libheif
/// brings starts threads, which a decode worker may not, and passes over damage. Thread-safe.
void register_hevc_plugin();

/// How the calling thread decodes HEVC while this object lives.
class HevcDecoding {
 public:
  /// A coded picture has at most `most_pixels`. `full_range` is what the file says of the range of
  /// its values, where it does. Deep samples of full range with colours for each four pixels lose
  /// their lower bits before libheif converts them: newer versions of it convert them so. The cells
  /// of a grid are of the grid's depth to libheif, so that theirs become zeros.
  HevcDecoding(std::int64_t most_pixels, std::optional<bool> full_range, bool is_grid);
  ~HevcDecoding();
  HevcDecoding(const HevcDecoding&) = delete;
  HevcDecoding& operator=(const HevcDecoding&) = delete;
};

}  // namespace isocost
