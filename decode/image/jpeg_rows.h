#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_decoder.h"
#include "decode/resize/pixel_rows.h"
#include "decode/shape/decode_limit.h"

namespace isocost {

/// The rows of a JPEG, decoded while they are read. Where rows are passed over and columns left
/// out, only coefficients are read, so that damage is found there too.
class JpegRows final : public RowSource {
 public:
  /// `file` is the whole file, of `width` × `height` stored pixels according to its header, and
  /// outlives the rows. The limit is looked at while a file of several scans is read, which is
  /// read to its end before the first row is there, and between rows. Errors: kCorrupt, and those
  /// of DecodeLimit::check.
  static Result<std::unique_ptr<JpegRows>> open(ByteView file, std::int32_t width,
                                                std::int32_t height, JpegDecoding how,
                                                DecodeLimit limit);
  ~JpegRows() override;

  std::int32_t width() const override;
  std::int32_t height() const override;
  Result<std::int32_t> restrict_columns(std::int32_t first, std::int32_t end) override;
  Status read(std::int32_t first, std::array<const std::uint8_t*, kResampleBatch>& rows) override;
  /// Goes to the end of the file, so that whatever is damaged or cut off is found. Errors: as
  /// `open`.
  Status finish();

 private:
  struct Decoder;
  explicit JpegRows(std::unique_ptr<Decoder> decoder);

  std::unique_ptr<Decoder> decoder_;
};

}  // namespace isocost
