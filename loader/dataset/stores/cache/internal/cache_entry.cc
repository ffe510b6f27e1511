#include "loader/dataset/stores/cache/internal/cache_entry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/units.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

std::span<std::byte> writable(std::string& text) { return std::as_writable_bytes(std::span(text)); }

// Writes bytes at a place of a file.
Status write_at(const FileDescriptor& file, std::int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file.get(), bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return last_file_error("an entry", "write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
  return {};
}

// Cuts a long range at multiples of 1 MiB, so that reading a part of it first does not read it
// whole to be compared.
std::vector<ByteRange> pieces_of(ByteRange range) {
  if (range.bytes() <= kMiB) return {range};
  std::vector<ByteRange> pieces;
  for (std::int64_t at = range.begin; at < range.end;) {
    const std::int64_t end = std::min(range.end, (at / kMiB + 1) * kMiB);
    pieces.push_back({at, end});
    at = end;
  }
  return pieces;
}

}  // namespace

// A call that reads or writes an entry. The first one of a process locks the file against removal,
// the last one lets go.
class CacheEntry::Use {
 public:
  explicit Use(CacheEntry& entry) : entry_(entry) {
    const MutexLock lock(entry_.using_);
    const int fd = entry_.file_.get();
    // It fails while the entry is being removed.
    if (entry_.users_ == 0 && ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) return;
    ++entry_.users_;
    is_counted_ = true;
  }
  ~Use() {
    if (!is_counted_) return;
    const MutexLock lock(entry_.using_);
    if (--entry_.users_ == 0) ::flock(entry_.file_.get(), LOCK_UN);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  // Returns the size of the file; nothing if it has been removed.
  std::optional<std::int64_t> file_bytes() const {
    struct stat status{};
    if (!is_counted_ || ::fstat(entry_.file_.get(), &status) != 0 || status.st_nlink == 0) {
      return std::nullopt;
    }
    return status.st_size;
  }

 private:
  CacheEntry& entry_;
  bool is_counted_ = false;
};

CacheEntry::CacheEntry(FileDescriptor file, FileDescriptor records, EntryHeader header)
    : file_(std::move(file)),
      records_(std::move(records)),
      header_(std::move(header)),
      learned_to_(header_.records_begin()) {}

Result<std::shared_ptr<CacheEntry>> CacheEntry::open_file(const fs::path& file) {
  FileDescriptor data(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (!data.is_open() && (errno == EROFS || errno == EACCES)) {
    data = FileDescriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  }
  struct stat status{};
  if (!data.is_open() || ::fstat(data.get(), &status) != 0) return last_file_error(file, "open");
  std::string begin(std::min(kMostHeaderBytes, static_cast<std::size_t>(status.st_size)), '\0');
  ISOCOST_ASSIGN(const std::size_t read, data.read_at(0, writable(begin)));
  begin.resize(read);
  auto header = read_header(begin);
  if (!header || status.st_size < header->records_begin()) {
    // Who removes an entry cuts it off when its name is gone.
    const bool is_gone = ::fstat(data.get(), &status) != 0 || status.st_nlink == 0;
    if (is_gone) return Error(ErrorCode::kNotFound, file.string() + ": it has been removed");
    return Error(ErrorCode::kCorrupt, file.string() + ": it is cut off, or its header is damaged");
  }
  FileDescriptor records(::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  struct stat other{};
  if (records.is_open() && (::fstat(records.get(), &other) != 0 || other.st_ino != status.st_ino)) {
    return Error(ErrorCode::kNotFound, file.string() + ": it has been replaced");
  }
  return std::shared_ptr<CacheEntry>(
      new CacheEntry(std::move(data), std::move(records), *std::move(header)));
}

Result<std::shared_ptr<CacheEntry>> CacheEntry::open(const fs::path& directory,
                                                     const CachedObject& object) {
  const fs::path file = directory / entry_name(object);
  ISOCOST_ASSIGN(auto entry, open_file(file));
  if (entry->object() == object) return entry;
  return Error(ErrorCode::kAlreadyExists, file.string() + ": it is another object's");
}

Result<std::shared_ptr<CacheEntry>> CacheEntry::create(const fs::path& directory,
                                                       const CachedObject& object) {
  const auto text = write_header(object);
  if (!text) return Error(ErrorCode::kUnsupported, "its name is too long");
  const fs::path file = directory / entry_name(object);
  // It is made under another name, and linked when its header is there.
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const fs::path unfinished = fmt::format("{}-new-{}-{}", file.string(), ::getpid(), now);
  const FileDescriptor made(
      ::open(unfinished.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!made.is_open()) return last_file_error(unfinished, "make");
  const auto header = read_header(*text);
  if (!header) return Error(ErrorCode::kInternal, "its header cannot be read");
  const std::int64_t bytes = header->records_begin();
  Status written = write_at(made, 0, *text);
  if (written && ::ftruncate(made.get(), bytes) != 0) {
    written = last_file_error(unfinished, "write");
  }
  if (written && ::link(unfinished.c_str(), file.c_str()) != 0 && errno != EEXIST) {
    written = last_file_error(file, "make");
  }
  ::unlink(unfinished.c_str());
  if (!written) return written.error();
  return open(directory, object);
}

bool CacheEntry::read_at(std::int64_t offset, char* to, std::int64_t bytes) const {
  const auto count = static_cast<std::size_t>(bytes);
  const auto read = file_.read_at(offset, std::as_writable_bytes(std::span(to, count)));
  return read && *read == count;
}

// Reads the records that have been appended since the last time, by any process.
Status CacheEntry::learn_records(std::int64_t file_bytes) {
  std::int64_t at = 0;
  {
    const MutexLock lock(mutex_);
    at = learned_to_;
  }
  std::string text;
  std::vector<StoredRange> learned;
  std::int64_t begin = at;  // of the text
  while (file_bytes - at >= static_cast<std::int64_t>(kRecordBytes)) {
    begin = at;
    text.resize(static_cast<std::size_t>(std::min(file_bytes - at, kMiB)));
    ISOCOST_ASSIGN(const std::size_t read, file_.read_at(at, writable(text)));
    text.resize(read);
    if (read < kRecordBytes) break;
    while (at - begin + static_cast<std::int64_t>(kRecordBytes) <= std::ssize(text)) {
      const std::string_view rest =
          std::string_view(text).substr(static_cast<std::size_t>(at - begin));
      const auto record = read_record(rest, header_.object.stamp.bytes);
      if (record) learned.push_back({.range = record->range, .crc = record->crc, .record = at});
      at += record ? static_cast<std::int64_t>(kRecordBytes) : 1;
    }
  }
  const MutexLock lock(mutex_);
  // Another thread may have read the same records.
  for (const StoredRange& range : learned) {
    if (range.record >= learned_to_) ranges_.add(range);
  }
  learned_to_ = std::max(learned_to_, at);
  return {};
}

CacheEntry::Found CacheEntry::read(ByteRange range, std::string& bytes) {
  const Use use(*this);
  const auto file_bytes = use.file_bytes();
  if (!file_bytes) return Found::kGone;
  const auto cover = [&] {
    const MutexLock lock(mutex_);
    return ranges_.cover(range);
  };
  std::vector<StoredRange> held = cover();
  if (held.empty()) {
    if (!learn_records(*file_bytes)) return Found::kNotAll;
    held = cover();
  }
  if (held.empty()) return Found::kNotAll;
  bytes.resize(static_cast<std::size_t>(range.bytes()));
  bool is_good = true;
  std::int64_t at = range.begin;
  for (const StoredRange& piece : held) {
    const ByteRange part{at, std::min(piece.range.end, range.end)};
    is_good = read_piece(piece, part, bytes.data() + (at - range.begin)) && is_good;
    at = part.end;
  }
  set_used();
  return is_good ? Found::kAll : Found::kDamaged;
}

// The last use decides which entries go first.
void CacheEntry::set_used() const {
  const std::array<timespec, 2> now{timespec{0, UTIME_OMIT}, timespec{0, UTIME_NOW}};
  ::futimens(file_.get(), now.data());
}

// Reads a part of a range that is held. The first time it reads the range whole, and compares it.
// Returns whether the bytes are good; drops the range otherwise.
bool CacheEntry::read_piece(const StoredRange& held, ByteRange part, char* to) {
  if (held.is_verified) {
    if (read_at(header_.bytes + part.begin, to, part.bytes())) return true;
    drop(held);
    return false;
  }
  const bool is_whole = part.bytes() == held.range.bytes();
  std::string whole(is_whole ? 0 : static_cast<std::size_t>(held.range.bytes()), '\0');
  char* const compared = is_whole ? to : whole.data();
  const std::int64_t bytes = held.range.bytes();
  if (!read_at(header_.bytes + held.range.begin, compared, bytes) ||
      crc_of({compared, static_cast<std::size_t>(bytes)}) != held.crc) {
    drop(held);
    return false;
  }
  if (!is_whole) {
    std::memcpy(to, compared + (part.begin - held.range.begin),
                static_cast<std::size_t>(part.bytes()));
  }
  const MutexLock lock(mutex_);
  ranges_.set_verified(held);
  return true;
}

bool CacheEntry::verify(const StoredRange& held) {
  const Use use(*this);
  if (!use.file_bytes()) return true;
  std::string bytes(static_cast<std::size_t>(held.range.bytes()), '\0');
  StoredRange unverified = held;
  unverified.is_verified = false;
  return read_piece(unverified, held.range, bytes.data());
}

// Forgets a damaged range, here and, by its record, for all others.
void CacheEntry::drop(const StoredRange& damaged) {
  static_cast<void>(write_at(file_, damaged.record, std::string(kRecordBytes, '\0')));
  const MutexLock lock(mutex_);
  ranges_.remove(damaged);
}

std::vector<ByteRange> CacheEntry::known_missing(ByteRange range) const {
  const MutexLock lock(mutex_);
  return ranges_.missing(range);
}

std::optional<std::vector<ByteRange>> CacheEntry::missing(ByteRange range) {
  const Use use(*this);
  const auto file_bytes = use.file_bytes();
  if (!file_bytes) return std::nullopt;
  if (!known_missing(range).empty()) static_cast<void>(learn_records(*file_bytes));
  set_used();
  return known_missing(range);
}

Status CacheEntry::keep(ByteRange range, std::string_view bytes) {
  const Use use(*this);
  const auto file_bytes = use.file_bytes();
  const Error gone(ErrorCode::kNotFound, "the entry has been removed");
  if (!file_bytes) return gone;
  if (!records_.is_open()) return Error(ErrorCode::kIo, "its entries cannot be written");
  ISOCOST_TRY(learn_records(*file_bytes));
  if (known_missing(range).empty()) return {};
  ISOCOST_TRY(write_at(file_, header_.bytes + range.begin, bytes));
  // Only now that the bytes are there, so that the end of the process leaves no record without
  // them. After a loss of power the CRC tells.
  std::string records;
  for (const ByteRange& piece : pieces_of(range)) {
    const auto at = static_cast<std::size_t>(piece.begin - range.begin);
    const auto count = static_cast<std::size_t>(piece.bytes());
    records += write_record({piece, crc_of(bytes.substr(at, count))});
  }
  ISOCOST_TRY(records_.write(std::as_bytes(std::span(records))));
  const auto grown = use.file_bytes();
  return grown ? learn_records(*grown) : Status(gone);
}

Result<StoredRanges> CacheEntry::ranges() {
  const Use use(*this);
  const auto file_bytes = use.file_bytes();
  if (!file_bytes) return Error(ErrorCode::kNotFound, "the entry has been removed");
  ISOCOST_TRY(learn_records(*file_bytes));
  const MutexLock lock(mutex_);
  return ranges_;
}

}  // namespace isocost
