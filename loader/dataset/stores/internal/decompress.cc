#include "loader/dataset/stores/internal/decompress.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "loader/dataset/stores/internal/compressed_stream.h"
#include "loader/dataset/stores/internal/temporary_file.h"

namespace isocost {
namespace {

constexpr std::size_t kChunk = std::size_t{256} << 10;

Status write(const FileDescriptor& file, std::span<const std::byte> bytes) {
  const Status written = file.write(bytes);
  if (written) return {};
  return Error(ErrorCode::kIo,
               fmt::format("writing decompressed bytes to {}: {}; make room or set TMPDIR",
                           temporary_directory().string(), written.error().message()));
}

// Decompresses into the file of the result.
Status decompress(CompressedStream& frames, std::int64_t max_bytes, const std::stop_token& stop,
                  Decompressed& result) {
  std::vector<std::byte> output(kChunk);
  for (;;) {
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while decompressing");
    ISOCOST_ASSIGN(const std::size_t produced, frames.read(output));
    if (produced == 0) return {};
    result.bytes += static_cast<std::int64_t>(produced);
    if (result.bytes > max_bytes) {
      return Error(ErrorCode::kResourceExhausted,
                   fmt::format("decompresses to more than {} bytes; unpack it, and serve the plain "
                               "tar",
                               max_bytes));
    }
    ISOCOST_TRY(write(result.file, std::span(output).first(produced)));
  }
}

}  // namespace

Result<Decompressed> decompress_to_temporary(const ByteSource& source, const std::string& name,
                                             std::int64_t max_bytes, const std::stop_token& stop) {
  ISOCOST_ASSIGN(const std::unique_ptr<CompressedStream> frames,
                 CompressedStream::open(source, "shard"));
  Decompressed result;
  auto file = create_temporary();
  if (!file) return std::move(file).error().with_context(name);
  result.file = *std::move(file);
  ISOCOST_TRY_CONTEXT(decompress(*frames, max_bytes, stop, result), name);
  result.problem = frames->problem();
  result.unread = frames->unread();
  return result;
}

}  // namespace isocost
