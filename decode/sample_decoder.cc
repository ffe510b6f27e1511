#include "decode/sample_decoder.h"

#include <cstddef>
#include <new>

#include "decode/image/picture_codecs.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

class InProcessDecoder final : public SampleDecoder {
 public:
  InProcessDecoder(const Recipe& recipe, std::chrono::nanoseconds cpu_time)
      : recipe_(recipe), cpu_time_(cpu_time) {}

  // Returns an error where memory runs out, so that the process survives.
  Tensors tensors(std::span<const PartBytes> parts, BufferPool& pool,
                  const std::stop_token& stop) override {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!needs_worker(parts[i].shape->format)) continue;
      return tl::unexpected(PartError{
          Error(ErrorCode::kInvalidArgument, "it is decoded in a worker process only"), i});
    }
    try {
      return recipe_.tensors(parts, pool, DecodeLimit(cpu_time_, stop));
    } catch (const std::bad_alloc&) {
      return tl::unexpected(
          PartError{Error(ErrorCode::kOutOfMemory, "there is no memory left to decode it"), 0});
    }
  }

 private:
  const Recipe recipe_;
  const std::chrono::nanoseconds cpu_time_;
};

}  // namespace

bool needs_worker(MediaFormat format) {
  const PictureCodec* codec = picture_codec(format);
  return codec != nullptr && codec->needs_worker;
}

std::unique_ptr<SampleDecoder> make_in_process_decoder(const Recipe& recipe,
                                                       std::chrono::nanoseconds cpu_time) {
  return std::make_unique<InProcessDecoder>(recipe, cpu_time);
}

}  // namespace isocost
