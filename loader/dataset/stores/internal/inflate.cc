#include "loader/dataset/stores/internal/inflate.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

namespace isocost {
namespace {

constexpr std::size_t kChunk = std::size_t{256} << 10;
constexpr int kGzipOnly = 15 + 16;

// Returns the directory for inflated shards, which may be large: /tmp is often memory, /var/tmp is
// disk.
std::filesystem::path temporary_directory() {
  const char* chosen = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): nobody sets it.
  if (chosen != nullptr && *chosen != '\0') return chosen;
  std::error_code ignored;
  if (std::filesystem::is_directory("/var/tmp", ignored)) return "/var/tmp";
  return std::filesystem::temp_directory_path(ignored);
}

Result<FileDescriptor> create_temporary() {
  const std::filesystem::path directory = temporary_directory();
  std::string name = (directory / "isocost-shard-XXXXXX").string();
  FileDescriptor file(mkostemp(name.data(), O_CLOEXEC));
  if (!file.is_open()) {
    return Error(ErrorCode::kIo,
                 fmt::format("cannot make a temporary file in {}: {}; set TMPDIR",
                             directory.string(), std::generic_category().message(errno)));
  }
  unlink(name.c_str());
  return file;
}

class Inflater {
 public:
  Inflater(const ByteSource& source, const FileDescriptor& file, std::int64_t max_bytes)
      : source_(source), file_(file), max_bytes_(max_bytes) {}
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  Status run(const std::stop_token& stop);
  std::int64_t bytes() const { return bytes_; }
  std::string problem;

 private:
  Result<bool> refill();
  Status step();
  Status write(std::size_t produced) const;
  bool at_member() const;

  const ByteSource& source_;
  const FileDescriptor& file_;
  const std::int64_t max_bytes_;
  z_stream stream_{};
  std::vector<Bytef> input_ = std::vector<Bytef>(kChunk);
  std::vector<Bytef> output_ = std::vector<Bytef>(kChunk);
  std::int64_t offset_ = 0;
  std::int64_t bytes_ = 0;
  bool between_members_ = false;
  bool done_ = false;
};

Status Inflater::run(const std::stop_token& stop) {
  if (inflateInit2(&stream_, kGzipOnly) != Z_OK) {
    return Error(ErrorCode::kInternal, "zlib cannot be set up");
  }
  while (!done_) {
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while inflating");
    ISOCOST_TRY(step());
  }
  return {};
}

// Reads more input; returns false at the end of the source.
Result<bool> Inflater::refill() {
  if (stream_.avail_in > 0) return true;
  ISOCOST_ASSIGN(const std::size_t read,
                 source_.read_at(offset_, std::as_writable_bytes(std::span(input_))));
  offset_ += static_cast<std::int64_t>(read);
  stream_.next_in = input_.data();
  stream_.avail_in = static_cast<uInt>(read);
  return read > 0;
}

// Returns whether another gzip member follows; otherwise padding does, which gzip ignores as well.
bool Inflater::at_member() const { return *stream_.next_in == 0x1F; }

Status Inflater::write(std::size_t produced) const {
  const Status written = file_.write(std::as_bytes(std::span(output_).first(produced)));
  if (written) return {};
  return Error(ErrorCode::kIo,
               fmt::format("writing inflated bytes to {}: {}; make room or set TMPDIR",
                           temporary_directory().string(), written.error().message()));
}

Status Inflater::step() {
  ISOCOST_ASSIGN(const bool more, refill());
  if (!more || (between_members_ && !at_member())) {
    if (!between_members_) {
      problem = fmt::format("the gzip stream is cut off at byte {}; copy the shard again", offset_);
    }
    done_ = true;
    return {};
  }
  between_members_ = false;
  stream_.next_out = output_.data();
  stream_.avail_out = static_cast<uInt>(output_.size());
  const int code = ::inflate(&stream_, Z_NO_FLUSH);
  const std::size_t produced = output_.size() - stream_.avail_out;
  bytes_ += static_cast<std::int64_t>(produced);
  if (bytes_ > max_bytes_) {
    return Error(ErrorCode::kResourceExhausted,
                 fmt::format("inflates to more than {} bytes; unpack it with gunzip", max_bytes_));
  }
  ISOCOST_TRY(write(produced));
  if (code == Z_STREAM_END) {
    inflateReset(&stream_);
    between_members_ = true;
  } else if (code != Z_OK && code != Z_BUF_ERROR) {
    problem =
        fmt::format("the gzip stream is damaged near byte {} ({}); copy the shard again",
                    offset_ - stream_.avail_in, stream_.msg != nullptr ? stream_.msg : "no detail");
    done_ = true;
  }
  return {};
}

}  // namespace

Result<Inflated> inflate_to_temporary(const ByteSource& source, const std::string& name,
                                      std::int64_t max_bytes, const std::stop_token& stop) {
  auto file = create_temporary();
  if (!file) return std::move(file).error().with_context(name);
  Inflater inflater(source, *file, max_bytes);
  ISOCOST_TRY_CONTEXT(inflater.run(stop), name);
  Inflated inflated;
  inflated.bytes = inflater.bytes();
  inflated.problem = std::move(inflater.problem);
  inflated.file = *std::move(file);
  return inflated;
}

}  // namespace isocost
