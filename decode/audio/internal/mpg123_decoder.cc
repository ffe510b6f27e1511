#include "decode/audio/internal/mpg123_decoder.h"

#include <mpg123.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "base/result.h"
#include "decode/audio/internal/mp3_frame.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {
namespace {

struct FreeHandle {
  void operator()(mpg123_handle* handle) const { mpg123_delete(handle); }
};

}  // namespace

struct Mpg123Decoder::State {
  std::unique_ptr<mpg123_handle, FreeHandle> handle;
  std::int32_t channels = 0;
};

Mpg123Decoder::Mpg123Decoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
Mpg123Decoder::Mpg123Decoder(Mpg123Decoder&&) noexcept = default;
Mpg123Decoder& Mpg123Decoder::operator=(Mpg123Decoder&&) noexcept = default;
Mpg123Decoder::~Mpg123Decoder() = default;

std::int32_t Mpg123Decoder::channels() const { return state_->channels; }

Result<Mpg123Decoder> Mpg123Decoder::create() {
  mpg123_init();  // older versions compute tables here
  auto state = std::make_unique<State>();
  state->handle.reset(mpg123_new(nullptr, nullptr));
  mpg123_handle* handle = state->handle.get();
  if (handle == nullptr) throw std::bad_alloc();
  // Each frame is given alone, and what surrounds them has been read already.
  constexpr long kFlags = MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_IGNORE_INFOFRAME |
                          MPG123_NO_RESYNC | MPG123_NO_READAHEAD | MPG123_IGNORE_STREAMLENGTH;
  constexpr long kUnwanted = MPG123_GAPLESS | MPG123_AUTO_RESAMPLE;
  const bool is_set = mpg123_param(handle, MPG123_REMOVE_FLAGS, kUnwanted, 0) == MPG123_OK &&
                      mpg123_param(handle, MPG123_ADD_FLAGS, kFlags, 0) == MPG123_OK;
  Mpg123Decoder decoder(std::move(state));
  if (!is_set) return Error(ErrorCode::kInternal, "the MP3 decoder does not open");
  ISOCOST_TRY(decoder.reset());
  return decoder;
}

Status Mpg123Decoder::reset() {
  if (mpg123_open_feed(state_->handle.get()) == MPG123_OK) return {};
  return Error(ErrorCode::kInternal, "the MP3 decoder does not open");
}

Result<std::span<const float>> Mpg123Decoder::decode(ByteView frame) {
  ISOCOST_TRY(check_mp3_side_info(frame));
  mpg123_handle* handle = state_->handle.get();
  if (mpg123_feed(handle, frame.data(), frame.size()) != MPG123_OK) throw std::bad_alloc();
  int code = mpg123_framebyframe_next(handle);
  if (code == MPG123_NEW_FORMAT) {
    long rate = 0;
    int channels = 0;
    int encoding = 0;
    code = mpg123_getformat(handle, &rate, &channels, &encoding);
    if (code == MPG123_OK && (encoding != MPG123_ENC_FLOAT_32 || channels < 1)) {
      return Error(ErrorCode::kInternal, "the MP3 decoder gives no floats");
    }
    state_->channels = channels;
  }
  unsigned char* bytes = nullptr;
  std::size_t size = 0;
  if (code == MPG123_OK) code = mpg123_framebyframe_decode(handle, nullptr, &bytes, &size);
  if (code != MPG123_OK || size == 0) return corrupt("it does not decode");
  return std::span<const float>(reinterpret_cast<const float*>(bytes), size / sizeof(float));
}

}  // namespace isocost
