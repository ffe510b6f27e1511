#include "loader/dataset/stores/cache/internal/entry_format.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "base/fingerprint.h"

namespace isocost {
namespace {

constexpr std::string_view kMagic = "isocache";
constexpr std::uint64_t kRecordMagic = 0x6163'6865'5F72'6364ULL;
constexpr std::string_view kSuffix = ".entry";
constexpr std::string_view kUnfinished = ".entry-new-";
constexpr std::size_t kHashDigits = 33;  // 16, '-' and 16
constexpr std::int64_t kPage = 4096;
constexpr std::size_t kCrcBytes = sizeof(std::uint32_t);

std::int64_t whole_pages(std::int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

template <typename T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Takes values from the begin of a text. After one that is cut off, all are empty.
class Taking {
 public:
  explicit Taking(std::string_view from) : left_(from) {}

  template <typename T>
  T number() {
    T value{};
    const std::string_view taken = text(sizeof(T));
    if (taken.size() == sizeof(T)) std::ranges::copy(taken, reinterpret_cast<char*>(&value));
    return value;
  }
  std::string_view text(std::size_t bytes) {
    if (bytes > left_.size()) {
      left_ = {};
      return {};
    }
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }

 private:
  std::string_view left_;
};

bool is_hash(std::string_view text) {
  if (text.size() != kHashDigits || text[kHashDigits / 2] != '-') return false;
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-'; });
}

}  // namespace

std::string entry_name(const CachedObject& object) {
  Fingerprint stamp;
  stamp.add(object.stamp.bytes);
  stamp.add(std::string_view(object.stamp.etag));
  stamp.add(object.stamp.modified_s);
  return fmt::format("{:016x}-{:016x}{}", Fingerprint::of(object.name), stamp.value(), kSuffix);
}

bool is_entry_name(std::string_view name) {
  return name.ends_with(kSuffix) && is_hash(name.substr(0, name.size() - kSuffix.size()));
}

bool is_unfinished_name(std::string_view name) {
  return is_hash(name.substr(0, std::min(kHashDigits, name.size()))) &&
         name.substr(kHashDigits).starts_with(kUnfinished);
}

std::uint32_t crc_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::optional<std::string> write_header(const CachedObject& object) {
  std::string header(kMagic);
  const std::size_t at_bytes = header.size();
  put(header, std::uint32_t{0});
  put(header, object.stamp.bytes);
  put(header, object.stamp.modified_s);
  put(header, static_cast<std::uint32_t>(object.stamp.etag.size()));
  put(header, static_cast<std::uint32_t>(object.name.size()));
  header += object.stamp.etag;
  header += object.name;
  const auto bytes =
      static_cast<std::size_t>(whole_pages(static_cast<std::int64_t>(header.size() + kCrcBytes)));
  if (bytes > kMostHeaderBytes) return std::nullopt;
  const auto written = static_cast<std::uint32_t>(bytes);
  std::memcpy(header.data() + at_bytes, &written, sizeof(written));
  header.resize(bytes - kCrcBytes);
  put(header, crc_of(header));
  return header;
}

std::optional<EntryHeader> read_header(std::string_view begin) {
  Taking taking(begin);
  if (taking.text(kMagic.size()) != kMagic) return std::nullopt;
  EntryHeader header;
  const auto bytes = taking.number<std::uint32_t>();
  if (bytes < kPage || bytes > begin.size()) return std::nullopt;
  const std::string_view hashed = begin.substr(0, bytes - kCrcBytes);
  if (Taking(begin.substr(hashed.size())).number<std::uint32_t>() != crc_of(hashed)) {
    return std::nullopt;
  }
  header.bytes = bytes;
  ObjectStamp& stamp = header.object.stamp;
  stamp.bytes = taking.number<std::int64_t>();
  stamp.modified_s = taking.number<std::int64_t>();
  const auto etag = taking.number<std::uint32_t>();
  const auto name = taking.number<std::uint32_t>();
  stamp.etag = taking.text(etag);
  header.object.name = taking.text(name);
  if (stamp.bytes < 0 || stamp.etag.size() != etag || header.object.name.size() != name) {
    return std::nullopt;
  }
  return header;
}

std::int64_t EntryHeader::records_begin() const { return bytes + whole_pages(object.stamp.bytes); }

std::string write_record(const RangeRecord& record) {
  std::string text;
  put(text, kRecordMagic);
  put(text, record.range.begin);
  put(text, record.range.end);
  put(text, record.crc);
  put(text, crc_of(text));
  return text;
}

std::optional<RangeRecord> read_record(std::string_view text, std::int64_t object_bytes) {
  if (text.size() < kRecordBytes) return std::nullopt;
  Taking taking(text);
  if (taking.number<std::uint64_t>() != kRecordMagic) return std::nullopt;
  RangeRecord record;
  record.range.begin = taking.number<std::int64_t>();
  record.range.end = taking.number<std::int64_t>();
  record.crc = taking.number<std::uint32_t>();
  if (taking.number<std::uint32_t>() != crc_of(text.substr(0, kRecordBytes - kCrcBytes))) {
    return std::nullopt;
  }
  const bool fits = record.range.begin >= 0 && record.range.begin < record.range.end &&
                    record.range.end <= object_bytes;
  return fits ? std::optional(record) : std::nullopt;
}

}  // namespace isocost
