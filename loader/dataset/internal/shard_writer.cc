#include "loader/dataset/internal/shard_writer.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "loader/dataset/internal/file_source.h"
#include "loader/dataset/internal/utf8_locale.h"

namespace isocost {
namespace {

constexpr std::int64_t kTarBlock = 512;
constexpr std::size_t kChunk = std::size_t{256} << 10;

struct FreeWriter {
  void operator()(struct archive* writer) const { archive_write_free(writer); }
};
struct FreeEntry {
  void operator()(struct archive_entry* entry) const { archive_entry_free(entry); }
};

class TarWriter final : public ShardWriter {
 public:
  TarWriter(std::filesystem::path path, std::filesystem::path temporary, FileDescriptor file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

  ~TarWriter() override {
    archive_.reset();
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  Status open(bool gzip);
  Status add(std::string_view member, const ByteSource& body) override;
  Status finish() override;

 private:
  Error failure() const {
    const char* text = archive_error_string(archive_.get());
    return {ErrorCode::kIo, path_.string() + ": " + (text != nullptr ? text : "write failed")};
  }
  Status write(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  FileDescriptor file_;
  std::unique_ptr<struct archive, FreeWriter> archive_;
  std::vector<std::byte> chunk_;
};

Status TarWriter::open(bool gzip) {
  archive_.reset(archive_write_new());
  if (archive_ == nullptr) return Error(ErrorCode::kIo, path_.string() + ": out of memory");
  struct archive* writer = archive_.get();
  bool ok = archive_write_set_format_pax_restricted(writer) == ARCHIVE_OK;
  if (gzip) {
    ok = ok && archive_write_add_filter_gzip(writer) == ARCHIVE_OK;
    // Otherwise gzip's header would hold the time of writing.
    ok = ok && archive_write_set_filter_option(writer, "gzip", "timestamp", nullptr) == ARCHIVE_OK;
  }
  ok = ok && archive_write_set_bytes_in_last_block(writer, 1) == ARCHIVE_OK;
  ok = ok && archive_write_open_fd(writer, file_.get()) == ARCHIVE_OK;
  if (!ok) return failure();
  chunk_.resize(kChunk);
  return {};
}

Status TarWriter::add(std::string_view member, const ByteSource& body) {
  const std::unique_ptr<struct archive_entry, FreeEntry> entry(archive_entry_new());
  if (entry == nullptr) return Error(ErrorCode::kIo, path_.string() + ": out of memory");
  const std::string name(member);
  archive_entry_set_pathname_utf8(entry.get(), name.c_str());
  archive_entry_set_size(entry.get(), body.size());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  archive_entry_set_mtime(entry.get(), 0, 0);
  archive_entry_set_uid(entry.get(), 0);
  archive_entry_set_gid(entry.get(), 0);
  {
    const Utf8Locale locale;
    if (archive_write_header(archive_.get(), entry.get()) < ARCHIVE_WARN) return failure();
  }
  for (std::int64_t at = 0; at < body.size();) {
    const auto want = static_cast<std::size_t>(
        std::min<std::int64_t>(body.size() - at, static_cast<std::int64_t>(chunk_.size())));
    ISOCOST_ASSIGN(const std::size_t got, body.read_at(at, std::span(chunk_).first(want)));
    if (got != want) return Error(ErrorCode::kCorrupt, name + ": changed while it was copied");
    ISOCOST_TRY(write(std::span(chunk_).first(got)));
    at += static_cast<std::int64_t>(got);
  }
  return {};
}

Status TarWriter::write(std::span<const std::byte> bytes) {
  const la_ssize_t written = archive_write_data(archive_.get(), bytes.data(), bytes.size());
  if (written < 0 || static_cast<std::size_t>(written) != bytes.size()) return failure();
  return {};
}

Status TarWriter::finish() {
  if (archive_write_close(archive_.get()) != ARCHIVE_OK) return failure();
  archive_.reset();
  if (::fsync(file_.get()) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return Error(ErrorCode::kIo, path_.string() + ": " + std::generic_category().message(errno));
  }
  temporary_.clear();
  return {};
}

}  // namespace

Result<std::unique_ptr<ShardWriter>> ShardWriter::create(const std::filesystem::path& path,
                                                         bool gzip) {
  std::string temporary = (path.parent_path() / (".isocost-" + path.filename().string())).string();
  temporary += ".XXXXXX";
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) {
    return Error(ErrorCode::kIo, path.parent_path().string() + ": cannot write here: " +
                                     std::generic_category().message(errno));
  }
  const int fd = file.get();
  auto writer = std::make_unique<TarWriter>(path, temporary, std::move(file));
  if (::fchmod(fd, 0644) != 0) return Error(ErrorCode::kIo, path.string() + ": chmod failed");
  ISOCOST_TRY(writer->open(gzip));
  return std::unique_ptr<ShardWriter>(std::move(writer));
}

std::int64_t tar_member_bytes(std::int64_t body_bytes) {
  return kTarBlock + (body_bytes + kTarBlock - 1) / kTarBlock * kTarBlock;
}

}  // namespace isocost
