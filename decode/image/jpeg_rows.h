#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_decoder.h"
#include "decode/resize/pixel_rows.h"
#include "decode/shape/decode_limit.h"

namespace isocost {

/// The rows of a JPEG, decoded while they are read. If rows are skipped and columns left out,
/// coefficients are still read, so that damage there is found, too.
class JpegRows final : public RowSource {
 public:
  /// Opens a JPEG. `file` is the whole file, of `width` × `height` stored pixels according to its
  /// header, and must outlive the rows. A file of several scans is read to its end before the first
  /// row is made. The limit is checked during that, and between rows. Errors: kCorrupt, and those
  /// of DecodeLimit::check.
  static Result<std::unique_ptr<JpegRows>> open(ByteView file, std::int32_t width,
                                                std::int32_t height, ImageDecoding how,
                                                DecodeLimit limit);
  ~JpegRows() override;

  std::int32_t width() const override;
  std::int32_t height() const override;
  Result<std::int32_t> restrict_columns(std::int32_t first, std::int32_t end) override;
  Status read(std::int32_t first, std::array<const std::uint8_t*, kResampleBatch>& rows) override;
  /// Reads to the end of the file, so that damage and truncation are found. Errors: those of
  /// `open`.
  Status finish();

 private:
  struct Decoder;
  explicit JpegRows(std::unique_ptr<Decoder> decoder);

  std::unique_ptr<Decoder> decoder_;
};

}  // namespace isocost
