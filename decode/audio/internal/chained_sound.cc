#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/internal/audio_decoder.h"
#include "decode/audio/internal/audio_headers.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/source_slice.h"
#include "decode/shape/media_formats.h"

namespace isocost {
namespace {

/// Streams that stand one after another in a file, each opened when the one before has ended.
class ChainedSound final : public AudioDecoder {
 public:
  ChainedSound(const ByteSource& source, MediaFormat format, std::vector<OggLink> links)
      : source_(source), format_(format), links_(std::move(links)) {}

  std::int32_t sample_rate() const override { return decoder_->sample_rate(); }
  std::int32_t channels() const override { return decoder_->channels(); }

  Result<std::span<const float>> read() override {
    for (;;) {
      ISOCOST_ASSIGN(const auto samples, decoder_->read());
      if (!samples.empty() || next_ == links_.size()) return samples;
      const std::int32_t rate = decoder_->sample_rate();
      ISOCOST_TRY(open_next());
      if (decoder_->sample_rate() != rate) return corrupt("its Ogg streams have different rates");
    }
  }

  Status open_next() {
    decoder_.reset();  // reads from the slice
    const OggLink& link = links_[next_++];
    slice_ = std::make_unique<SourceSlice>(source_, link.offset, link.bytes);
    ISOCOST_ASSIGN(decoder_, open_audio(*slice_, format_));
    return {};
  }

 private:
  const ByteSource& source_;
  MediaFormat format_;
  std::vector<OggLink> links_;
  std::size_t next_ = 0;
  std::unique_ptr<SourceSlice> slice_;
  std::unique_ptr<AudioDecoder> decoder_;
};

}  // namespace

Result<std::unique_ptr<AudioDecoder>> open_checked_ogg(const ByteSource& source, MediaFormat format,
                                                       std::int64_t samples) {
  ISOCOST_ASSIGN(std::vector<OggLink> links, check_ogg_pages(source, samples));
  const bool is_whole = links.size() == 1 && links.front().bytes == source.size();
  if (is_whole || links.empty()) return open_audio(source, format);
  auto chain = std::make_unique<ChainedSound>(source, format, std::move(links));
  ISOCOST_TRY(chain->open_next());
  return chain;
}

}  // namespace isocost
