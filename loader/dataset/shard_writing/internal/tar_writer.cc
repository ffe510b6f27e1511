#include "loader/dataset/shard_writing/internal/tar_writer.h"

#include <archive.h>
#include <archive_entry.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/output_file.h"
#include "loader/dataset/formats/utf8_locale.h"

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

class LibarchiveWriter final : public TarWriter {
 public:
  LibarchiveWriter(std::filesystem::path path, OutputFile file)
      : path_(std::move(path)), file_(std::move(file)) {}

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
  OutputFile file_;
  std::unique_ptr<struct archive, FreeWriter> archive_;  // writes to the file until it is freed
  std::vector<std::byte> chunk_;
};

Status LibarchiveWriter::open(bool gzip) {
  archive_.reset(archive_write_new());
  if (archive_ == nullptr) return Error(ErrorCode::kIo, path_.string() + ": out of memory");
  struct archive* writer = archive_.get();
  bool ok = archive_write_set_format_pax_restricted(writer) == ARCHIVE_OK;
  if (gzip) {
    ok = ok && archive_write_add_filter_gzip(writer) == ARCHIVE_OK;
    // Without this option, gzip's header would contain the time of writing.
    ok = ok && archive_write_set_filter_option(writer, "gzip", "timestamp", nullptr) == ARCHIVE_OK;
  }
  ok = ok && archive_write_set_bytes_in_last_block(writer, 1) == ARCHIVE_OK;
  ok = ok && archive_write_open_fd(writer, file_.descriptor().get()) == ARCHIVE_OK;
  if (!ok) return failure();
  chunk_.resize(kChunk);
  return {};
}

Status LibarchiveWriter::add(std::string_view member, const ByteSource& body) {
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

Status LibarchiveWriter::write(std::span<const std::byte> bytes) {
  const la_ssize_t written = archive_write_data(archive_.get(), bytes.data(), bytes.size());
  if (written < 0 || static_cast<std::size_t>(written) != bytes.size()) return failure();
  return {};
}

Status LibarchiveWriter::finish() {
  if (archive_write_close(archive_.get()) != ARCHIVE_OK) return failure();
  archive_.reset();
  if (::fsync(file_.descriptor().get()) != 0) return last_file_error(path_, "write");
  return file_.commit();
}

}  // namespace

Result<std::unique_ptr<TarWriter>> TarWriter::create(const std::filesystem::path& path, bool gzip) {
  ISOCOST_ASSIGN(OutputFile file, OutputFile::create(path));
  auto writer = std::make_unique<LibarchiveWriter>(path, std::move(file));
  ISOCOST_TRY(writer->open(gzip));
  return std::unique_ptr<TarWriter>(std::move(writer));
}

std::int64_t tar_member_bytes(std::int64_t body_bytes) {
  return kTarBlock + (body_bytes + kTarBlock - 1) / kTarBlock * kTarBlock;
}

}  // namespace isocost
