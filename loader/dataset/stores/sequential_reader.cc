#include "loader/dataset/stores/sequential_reader.h"

#include <array>
#include <string>
#include <utility>

#include "loader/dataset/stores/file_source.h"
#include "loader/dataset/stores/internal/compressed_stream.h"

namespace isocost {
namespace {

class PlainReader final : public SequentialReader {
 public:
  explicit PlainReader(std::unique_ptr<FileSource> file) : file_(std::move(file)) {}

  Result<std::size_t> read(std::span<std::byte> destination) override {
    ISOCOST_ASSIGN(const std::size_t read,
                   file_->read_at(static_cast<std::int64_t>(done_), destination));
    done_ += read;
    return read;
  }
  std::uint64_t done() const override { return done_; }
  std::uint64_t total() const override { return static_cast<std::uint64_t>(file_->size()); }

 private:
  const std::unique_ptr<FileSource> file_;
  std::uint64_t done_ = 0;
};

class CompressedReader final : public SequentialReader {
 public:
  CompressedReader(std::string name, std::unique_ptr<FileSource> file,
                   std::unique_ptr<CompressedStream> frames)
      : name_(std::move(name)), file_(std::move(file)), frames_(std::move(frames)) {}

  Result<std::size_t> read(std::span<std::byte> destination) override {
    ISOCOST_ASSIGN(const std::size_t read, frames_->read(destination));
    if (read > 0) return read;
    const std::string& why = frames_->problem().empty() ? frames_->unread() : frames_->problem();
    if (!why.empty()) return Error(ErrorCode::kIo, name_ + ": " + why);
    return read;
  }
  std::uint64_t done() const override { return static_cast<std::uint64_t>(frames_->offset()); }
  std::uint64_t total() const override { return static_cast<std::uint64_t>(file_->size()); }

 private:
  const std::string name_;
  const std::unique_ptr<FileSource> file_;
  const std::unique_ptr<CompressedStream> frames_;
};

}  // namespace

Result<std::unique_ptr<SequentialReader>> SequentialReader::open(
    const std::filesystem::path& path) {
  ISOCOST_ASSIGN(std::unique_ptr<FileSource> file, FileSource::open(path));
  std::array<std::byte, StreamDecoder::kMagicBytes> begin{};
  ISOCOST_ASSIGN(const std::size_t read, file->read_at(0, begin));
  if (!is_compressed(std::span(begin).first(read))) {
    return std::unique_ptr<SequentialReader>(std::make_unique<PlainReader>(std::move(file)));
  }
  ISOCOST_ASSIGN(std::unique_ptr<CompressedStream> frames, CompressedStream::open(*file, "file"));
  return std::unique_ptr<SequentialReader>(
      std::make_unique<CompressedReader>(path.string(), std::move(file), std::move(frames)));
}

}  // namespace isocost
