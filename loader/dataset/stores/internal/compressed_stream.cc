#include "loader/dataset/stores/internal/compressed_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace isocost {
namespace {

constexpr std::size_t kInputBytes = std::size_t{256} << 10;

}  // namespace

bool is_compressed(std::span<const std::byte> begin) { return is_gzip(begin) || is_zstd(begin); }

CompressedStream::CompressedStream(const ByteSource& source, std::string_view kind,
                                   std::unique_ptr<StreamDecoder> decoder)
    : source_(source), kind_(kind), decoder_(std::move(decoder)), input_(kInputBytes) {}

Result<std::unique_ptr<CompressedStream>> CompressedStream::open(const ByteSource& source,
                                                                 std::string_view kind) {
  std::array<std::byte, StreamDecoder::kMagicBytes> begin{};
  ISOCOST_ASSIGN(const std::size_t read, source.read_at(0, begin));
  auto decoder = is_zstd(std::span(begin).first(read)) ? make_zstd_decoder() : make_gzip_decoder();
  if (!decoder) return std::move(decoder).error();
  return std::unique_ptr<CompressedStream>(new CompressedStream(source, kind, *std::move(decoder)));
}

Result<std::size_t> CompressedStream::read(std::span<std::byte> output) {
  while (!done_) {
    ISOCOST_ASSIGN(const std::size_t produced, step(output));
    if (produced > 0) return produced;
  }
  return std::size_t{0};
}

// Reads more input if there is too little to tell whether a frame begins.
Status CompressedStream::refill() {
  while (end_ - begin_ < StreamDecoder::kMagicBytes) {
    std::copy(input().begin(), input().end(), input_.begin());
    end_ -= std::exchange(begin_, 0);
    ISOCOST_ASSIGN(const std::size_t read,
                   source_.read_at(offset_, std::span(input_).subspan(end_)));
    if (read == 0) break;
    offset_ += static_cast<std::int64_t>(read);
    end_ += read;
  }
  return {};
}

// Looks for other bytes than the padding with zeros that gzip ignores as well.
Status CompressedStream::look_behind() {
  for (;;) {
    const auto rest = input();
    const auto found = std::ranges::find_if(rest, [](std::byte b) { return b != std::byte{0}; });
    begin_ += static_cast<std::size_t>(found - rest.begin());
    if (found != rest.end()) break;
    ISOCOST_TRY(refill());
    if (begin_ == end_) return {};
  }
  unread_ = fmt::format(
      "{} bytes from byte {} on, behind the end of its {} stream, are not read: compress the {} "
      "again",
      source_.size() - offset(), offset(), decoder_->name(), kind_);
  return {};
}

Result<std::size_t> CompressedStream::step(std::span<std::byte> output) {
  ISOCOST_TRY(refill());
  if (between_frames_ && !decoder_->begins(input())) {
    done_ = true;
    ISOCOST_TRY(look_behind());
    return std::size_t{0};
  }
  if (input().empty() && !holds_back_) {
    problem_ = fmt::format("the {} stream is cut off at byte {}; copy the {} again",
                           decoder_->name(), offset(), kind_);
    done_ = true;
    return std::size_t{0};
  }
  StreamDecoder::Step decoded = decoder_->decode(input(), output);
  begin_ += decoded.consumed;
  between_frames_ = decoded.frame_ended;
  holds_back_ = decoded.produced == output.size();
  const bool is_stuck =
      decoded.consumed + decoded.produced == 0 && !input().empty() && !decoded.frame_ended;
  if (is_stuck && decoded.damage.empty()) decoded.damage = "no detail";
  if (!decoded.refusal.empty()) {
    problem_ = fmt::format("the {} stream {}", decoder_->name(), decoded.refusal);
  } else if (!decoded.damage.empty()) {
    problem_ = fmt::format("the {} stream is damaged near byte {} ({}); copy the {} again",
                           decoder_->name(), offset(), decoded.damage, kind_);
  }
  done_ = !problem_.empty();
  return decoded.produced;
}

}  // namespace isocost
