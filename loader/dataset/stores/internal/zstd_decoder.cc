#include <zstd.h>
#include <zstd_errors.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "loader/dataset/stores/internal/stream_decoder.h"

namespace isocost {
namespace {

// The decoder's memory is the window that a stream asks for; zstd's own default is the same.
constexpr int kMostWindowLog = 27;

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

class ZstdDecoder final : public StreamDecoder {
 public:
  explicit ZstdDecoder(std::unique_ptr<ZSTD_DCtx, FreeContext> context)
      : context_(std::move(context)) {}

  std::string_view name() const override { return "zstd"; }
  bool begins(std::span<const std::byte> bytes) const override { return is_zstd(bytes); }
  Step decode(std::span<const std::byte> input, std::span<std::byte> output) override;

 private:
  const std::unique_ptr<ZSTD_DCtx, FreeContext> context_;
};

StreamDecoder::Step ZstdDecoder::decode(std::span<const std::byte> input,
                                        std::span<std::byte> output) {
  ZSTD_inBuffer in{.src = input.data(), .size = input.size(), .pos = 0};
  ZSTD_outBuffer out{.dst = output.data(), .size = output.size(), .pos = 0};
  const std::size_t code = ZSTD_decompressStream(context_.get(), &out, &in);
  Step step;
  step.consumed = in.pos;
  step.produced = out.pos;
  if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge) {
    step.refusal =
        "needs a window of more than 128 MiB; compress it again with zstd --long=27 at most";
  } else if (ZSTD_isError(code) != 0) {
    step.damage = ZSTD_getErrorName(code);
  } else {
    step.frame_ended = code == 0;
  }
  return step;
}

}  // namespace

// A frame, or one that is to be skipped: pzstd and seekable files begin with one.
bool is_zstd(std::span<const std::byte> bytes) {
  if (bytes.size() < 4) return false;
  std::uint32_t magic = 0;
  for (std::size_t i = 4; i > 0; --i) magic = magic << 8 | static_cast<std::uint32_t>(bytes[i - 1]);
  return magic == ZSTD_MAGICNUMBER || (magic & 0xFFFFFFF0U) == 0x184D2A50U;
}

Result<std::unique_ptr<StreamDecoder>> make_zstd_decoder() {
  std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (context == nullptr ||
      ZSTD_isError(ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kMostWindowLog))) {
    return Error(ErrorCode::kInternal, "libzstd cannot be set up");
  }
  return std::unique_ptr<StreamDecoder>(std::make_unique<ZstdDecoder>(std::move(context)));
}

}  // namespace isocost
