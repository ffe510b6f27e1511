#include <zlib.h>

#include <memory>
#include <utility>

#include "loader/dataset/stores/internal/stream_decoder.h"

namespace isocost {
namespace {

constexpr int kGzipOnly = 15 + 16;

class GzipDecoder final : public StreamDecoder {
 public:
  GzipDecoder() = default;
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;
  ~GzipDecoder() override { inflateEnd(&stream_); }

  bool open() { return inflateInit2(&stream_, kGzipOnly) == Z_OK; }
  std::string_view name() const override { return "gzip"; }
  bool begins(std::span<const std::byte> bytes) const override { return is_gzip(bytes); }
  Step decode(std::span<const std::byte> input, std::span<std::byte> output) override;

 private:
  z_stream stream_{};
};

StreamDecoder::Step GzipDecoder::decode(std::span<const std::byte> input,
                                        std::span<std::byte> output) {
  // zlib does not write to its input.
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
  stream_.avail_in = static_cast<uInt>(input.size());
  stream_.next_out = reinterpret_cast<Bytef*>(output.data());
  stream_.avail_out = static_cast<uInt>(output.size());
  const int code = ::inflate(&stream_, Z_NO_FLUSH);
  Step step;
  step.consumed = input.size() - stream_.avail_in;
  step.produced = output.size() - stream_.avail_out;
  step.frame_ended = code == Z_STREAM_END;
  if (step.frame_ended) {
    inflateReset(&stream_);
  } else if (code != Z_OK && code != Z_BUF_ERROR) {
    step.damage = stream_.msg != nullptr ? stream_.msg : "no detail";
  }
  return step;
}

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B};
}

Result<std::unique_ptr<StreamDecoder>> make_gzip_decoder() {
  auto decoder = std::make_unique<GzipDecoder>();
  if (!decoder->open()) return Error(ErrorCode::kInternal, "zlib cannot be set up");
  return std::unique_ptr<StreamDecoder>(std::move(decoder));
}

}  // namespace isocost
