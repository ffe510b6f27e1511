#include "loader/dataset/stores/internal/decompress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "loader/dataset/stores/internal/stream_decoder.h"
#include "loader/dataset/stores/internal/temporary_file.h"

namespace isocost {
namespace {

constexpr std::size_t kChunk = std::size_t{256} << 10;

class Decompression {
 public:
  Decompression(const ByteSource& source, StreamDecoder& decoder, Decompressed& result,
                std::int64_t max_bytes)
      : source_(source), decoder_(decoder), result_(result), max_bytes_(max_bytes) {}

  Status run(const std::stop_token& stop);

 private:
  Status refill();
  Status step();
  Status look_behind();
  Status write(std::size_t produced) const;
  std::span<const std::byte> input() const {
    return std::span(input_).subspan(begin_, end_ - begin_);
  }
  // Returns the offset in the source of the next byte to decode.
  std::int64_t offset() const { return offset_ - static_cast<std::int64_t>(end_ - begin_); }

  const ByteSource& source_;
  StreamDecoder& decoder_;
  Decompressed& result_;
  const std::int64_t max_bytes_;
  std::vector<std::byte> input_ = std::vector<std::byte>(kChunk);
  std::vector<std::byte> output_ = std::vector<std::byte>(kChunk);
  std::size_t begin_ = 0;  // of the input that is not decoded yet
  std::size_t end_ = 0;
  std::int64_t offset_ = 0;  // behind the input that was read
  bool between_frames_ = true;
  bool holds_back_ = false;  // the decoder may have output that found no room
  bool done_ = false;
};

Status Decompression::run(const std::stop_token& stop) {
  while (!done_) {
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while decompressing");
    ISOCOST_TRY(step());
  }
  return {};
}

// Reads more input where there is too little to tell whether a frame begins.
Status Decompression::refill() {
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

Status Decompression::write(std::size_t produced) const {
  const Status written = result_.file.write(std::span(output_).first(produced));
  if (written) return {};
  return Error(ErrorCode::kIo,
               fmt::format("writing decompressed bytes to {}: {}; make room or set TMPDIR",
                           temporary_directory().string(), written.error().message()));
}

// Looks for other bytes than the padding with zeros that gzip ignores as well.
Status Decompression::look_behind() {
  for (;;) {
    const auto rest = input();
    const auto found = std::ranges::find_if(rest, [](std::byte b) { return b != std::byte{0}; });
    begin_ += static_cast<std::size_t>(found - rest.begin());
    if (found != rest.end()) break;
    ISOCOST_TRY(refill());
    if (begin_ == end_) return {};
  }
  result_.unread = fmt::format(
      "{} bytes from byte {} on, behind the end of its {} stream, are not read: compress the shard "
      "again",
      source_.size() - offset(), offset(), decoder_.name());
  return {};
}

Status Decompression::step() {
  ISOCOST_TRY(refill());
  if (between_frames_ && !decoder_.begins(input())) {
    done_ = true;
    return look_behind();
  }
  if (input().empty() && !holds_back_) {
    result_.problem = fmt::format("the {} stream is cut off at byte {}; copy the shard again",
                                  decoder_.name(), offset());
    done_ = true;
    return {};
  }
  StreamDecoder::Step decoded = decoder_.decode(input(), output_);
  begin_ += decoded.consumed;
  between_frames_ = decoded.frame_ended;
  holds_back_ = decoded.produced == output_.size();
  result_.bytes += static_cast<std::int64_t>(decoded.produced);
  if (result_.bytes > max_bytes_) {
    return Error(ErrorCode::kResourceExhausted,
                 fmt::format("decompresses to more than {} bytes; unpack it, and serve the plain "
                             "tar",
                             max_bytes_));
  }
  ISOCOST_TRY(write(decoded.produced));
  const bool is_stuck =
      decoded.consumed + decoded.produced == 0 && !input().empty() && !decoded.frame_ended;
  if (is_stuck && decoded.damage.empty()) decoded.damage = "no detail";
  if (!decoded.damage.empty()) {
    result_.problem =
        fmt::format("the {} stream is damaged near byte {} ({}); copy the shard again",
                    decoder_.name(), offset(), decoded.damage);
    done_ = true;
  }
  return {};
}

}  // namespace

bool is_compressed(std::span<const std::byte> begin) { return is_gzip(begin) || is_zstd(begin); }

Result<Decompressed> decompress_to_temporary(const ByteSource& source, const std::string& name,
                                             std::int64_t max_bytes, const std::stop_token& stop) {
  std::array<std::byte, StreamDecoder::kMagicBytes> begin{};
  ISOCOST_ASSIGN(const std::size_t read, source.read_at(0, begin));
  auto decoder = is_zstd(std::span(begin).first(read)) ? make_zstd_decoder() : make_gzip_decoder();
  if (!decoder) return std::move(decoder).error();
  Decompressed result;
  auto file = create_temporary();
  if (!file) return std::move(file).error().with_context(name);
  result.file = *std::move(file);
  Decompression decompression(source, **decoder, result, max_bytes);
  ISOCOST_TRY_CONTEXT(decompression.run(stop), name);
  return result;
}

}  // namespace isocost
