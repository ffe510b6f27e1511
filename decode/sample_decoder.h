#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <stop_token>
#include <tl/expected.hpp>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/tensor.h"
#include "decode/recipe.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// Makes tensors from the bytes of samples. Thread-safe.
class SampleDecoder {
 public:
  virtual ~SampleDecoder() = default;

  using Tensors = tl::expected<std::vector<NamedTensor>, PartError>;

  /// Returns Recipe::tensors, within the decoder's limits. Errors: those of Recipe::tensors;
  /// kOutOfMemory; kUnavailable if this machine cannot start a decoder now.
  virtual Tensors tensors(std::span<const PartBytes> parts, BufferPool& pool,
                          const std::stop_token& stop) = 0;

  /// Starts what decodes media of `format` elsewhere than on the calling thread, so that a program
  /// that is absent shows before the first such sample comes. Blocks until it has started. Does
  /// nothing if nothing needs to start.
  virtual Status start_for(MediaFormat format, const std::stop_token& stop) {
    static_cast<void>(format);
    static_cast<void>(stop);
    return {};
  }
};

/// Returns whether a format is decoded only in worker processes, even if others are decoded in the
/// loader's own: TIFF, HEIC and AVIF (decode/image/picture_codecs.cc).
bool needs_worker(MediaFormat format);

/// Makes a decoder that decodes on the calling thread. If it crashes, the process crashes.
/// `cpu_time`: DecodeOptions::decode_timeout. It refuses parts that need_worker, with
/// kInvalidArgument: make_guarded_decoder in isolation/ decodes them, too.
std::unique_ptr<SampleDecoder> make_in_process_decoder(const Recipe& recipe,
                                                       std::chrono::nanoseconds cpu_time);

}  // namespace isocost
