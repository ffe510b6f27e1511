#include "loader/dataset/tokens/token_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/fingerprint.h"
#include "base/utf8.h"

namespace isocost {
namespace {

constexpr std::array<char, 8> kMagic = {'I', 'S', 'O', 'C', 'T', 'O', 'K', '\n'};
constexpr std::uint32_t kVersion = 4;

/// The first bytes of the file, little-endian, as in docs/token_format.md.
struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t crc = 0;  ///< CRC-32 of the bytes from 16 to the entries.
  std::uint64_t file_bytes = 0;
  std::uint64_t content_hash = 0;
  std::uint64_t samples = 0;
  std::uint64_t keys = 0;
  std::uint64_t tokenizer = 0;
  std::uint64_t chat_template = 0;
  std::uint64_t placeholders = 0;
  std::uint64_t text_settings = 0;
  std::uint64_t tokens_version = 0;
  std::uint64_t options_bytes = 0;
  std::uint64_t reasons_bytes = 0;
};
static_assert(sizeof(Header) == 104 && std::is_trivially_copyable_v<Header>);

/// Positions of the columns, each a multiple of 8.
struct Columns {
  std::uint64_t entry_ends, text_tokens, label_tokens, weights, reason_ends, options, reasons,
      entries;

  static Columns of(const Header& header) {
    std::uint64_t end = sizeof(Header);
    const auto next = [&end](std::uint64_t bytes) {
      const std::uint64_t begin = end;
      end = (begin + bytes + 7) / 8 * 8;
      return begin;
    };
    Columns columns{};
    columns.entry_ends = next(header.samples * sizeof(std::uint64_t));
    columns.text_tokens = next(header.samples * sizeof(std::uint32_t));
    columns.label_tokens = next(header.samples * sizeof(std::uint32_t));
    columns.weights = next(header.samples * sizeof(std::uint32_t));
    columns.reason_ends = next(header.samples * sizeof(std::uint32_t));
    columns.options = next(header.options_bytes);
    columns.reasons = next(header.reasons_bytes);
    columns.entries = end;
    return columns;
  }
};

std::uint32_t crc_of(std::span<const std::byte> bytes, std::uint64_t entries) {
  constexpr std::size_t kFrom = offsetof(Header, file_bytes);
  const auto covered = bytes.subspan(kFrom, entries - kFrom);
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(covered.data()), covered.size()));
}

template <typename T>
void put(std::vector<std::byte>& bytes, std::uint64_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

void put_text(std::vector<std::byte>& bytes, std::uint64_t at, std::string_view text) {
  if (!text.empty()) std::memcpy(bytes.data() + at, text.data(), text.size());
}

Error damaged_file() { return {ErrorCode::kCorrupt, "damaged"}; }

}  // namespace

TokenFileIdentity TokenFileIdentity::of(const IndexView& index, TokenizerIdentity tokenizer) {
  Fingerprint keys;
  for (std::uint64_t i = 0; i < index.samples(); ++i) keys.add(index.key(i));
  // Other parts or places of texts give other tokens.
  const std::uint64_t reading = index.identity().reading;
  if (reading != 0) keys.add(reading);
  return {index.content_hash(), index.samples(), keys.value(), std::move(tokenizer)};
}

std::string TokenFileIdentity::difference(const TokenFileIdentity& wanted) const {
  const std::string of_tokenizer = tokenizer.difference(wanted.tokenizer);
  if (!of_tokenizer.empty()) return "were made with " + of_tokenizer;
  TokenFileIdentity same = *this;
  same.tokenizer = wanted.tokenizer;
  return same == wanted
             ? ""
             : "were made of another state of the shard, or of other parts of its samples";
}

std::filesystem::path token_file_name(const std::filesystem::path& index) {
  return std::filesystem::path(index).replace_extension(".tokens");
}

std::vector<std::byte> encode_token_file(const TokenFileIdentity& identity,
                                         std::span<const TokenizedSample> samples,
                                         std::span<const std::uint32_t> media) {
  Header header;
  header.content_hash = identity.content_hash;
  header.samples = samples.size();
  header.keys = identity.keys;
  header.tokenizer = identity.tokenizer.tokenizer;
  header.chat_template = identity.tokenizer.chat_template;
  header.placeholders = identity.tokenizer.placeholders;
  header.text_settings = identity.tokenizer.text_settings;
  header.tokens_version = identity.tokenizer.version;
  header.options_bytes = identity.tokenizer.options.size();
  for (const TokenizedSample& sample : samples) header.reasons_bytes += sample.reason.size();
  const Columns at = Columns::of(header);

  std::vector<std::byte> bytes(at.entries);
  put_text(bytes, at.options, identity.tokenizer.options);
  std::uint64_t entries = 0;
  std::uint32_t reasons = 0;
  std::vector<std::byte> tail;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const TokenizedSample& sample = samples[i];
    if (sample.reason.empty()) {
      const std::vector<std::byte> entry = encode_tokens(sample.tokens);
      tail.insert(tail.end(), entry.begin(), entry.end());
      entries += entry.size();
    }
    const auto labels = std::ranges::count(sample.tokens.labelled, true);
    const auto ids = std::ssize(sample.tokens.ids);
    put_text(bytes, at.reasons + reasons, sample.reason);
    reasons += static_cast<std::uint32_t>(sample.reason.size());
    put(bytes, at.entry_ends + i * sizeof(std::uint64_t), entries);
    put(bytes, at.text_tokens + i * sizeof(std::uint32_t),
        sample.reason.empty() ? static_cast<std::uint32_t>(ids) - media[i] : 0);
    put(bytes, at.label_tokens + i * sizeof(std::uint32_t), static_cast<std::uint32_t>(labels));
    put(bytes, at.weights + i * sizeof(std::uint32_t),
        static_cast<std::uint32_t>(sample.tokens.weights.size()));
    put(bytes, at.reason_ends + i * sizeof(std::uint32_t), reasons);
  }
  bytes.insert(bytes.end(), tail.begin(), tail.end());
  header.file_bytes = bytes.size();
  put(bytes, 0, header);
  header.crc = crc_of(bytes, at.entries);
  put(bytes, 0, header);
  return bytes;
}

Result<std::shared_ptr<const TokenFile>> TokenFile::map(const std::filesystem::path& path) {
  std::shared_ptr<TokenFile> file(new TokenFile());
  file->path_ = path;
  ISOCOST_ASSIGN(file->mapping_, GuardedMapping::map(path));
  ISOCOST_TRY(file->parse(false));
  return std::shared_ptr<const TokenFile>(std::move(file));
}

Result<std::shared_ptr<const TokenFile>> TokenFile::map_again(const std::filesystem::path& path,
                                                              const FileStamp& checked) {
  std::shared_ptr<TokenFile> file(new TokenFile());
  file->path_ = path;
  ISOCOST_ASSIGN(file->mapping_, GuardedMapping::map(path));
  ISOCOST_TRY(file->parse(file->stamp() == checked));
  return std::shared_ptr<const TokenFile>(std::move(file));
}

Status TokenFile::parse(bool checked_before) {
  const std::span<const std::byte> bytes = mapping_.bytes();
  Header header;
  if (bytes.size() < sizeof(header)) return damaged_file();
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) return damaged_file();
  if (header.version != kVersion) {
    return Error(ErrorCode::kUnsupported, "of version " + std::to_string(header.version) +
                                              ", while this Isocost reads " +
                                              std::to_string(kVersion));
  }
  const std::uint64_t size = bytes.size();
  if (header.file_bytes != size || header.samples > size || header.options_bytes > size ||
      header.reasons_bytes > size) {
    return damaged_file();
  }
  const Columns at = Columns::of(header);
  if (at.entries > size) return damaged_file();
  if (!checked_before && crc_of(bytes, at.entries) != header.crc) return damaged_file();
  entry_ends_ = at.entry_ends;
  text_tokens_ = at.text_tokens;
  label_tokens_ = at.label_tokens;
  weights_ = at.weights;
  reason_ends_ = at.reason_ends;
  reasons_ = at.reasons;
  entries_ = at.entries;
  // The bytes may be anything, so only printable characters of them may reach a log.
  const auto* options = reinterpret_cast<const char*>(bytes.data() + at.options);
  identity_ = {header.content_hash,
               header.samples,
               header.keys,
               {header.tokenizer, header.chat_template, header.placeholders, header.text_settings,
                header.tokens_version, printable_utf8({options, header.options_bytes})}};
  return checked_before ? Status() : check_ends(header.reasons_bytes);
}

// Checks that the ends of entries and reasons rise up to those of the file.
Status TokenFile::check_ends(std::uint64_t reasons_bytes) const {
  std::uint64_t entry = 0;
  std::uint32_t reason = 0;
  for (std::uint64_t i = 0; i < identity_.samples; ++i) {
    const auto entry_end = load<std::uint64_t>(entry_ends_, i);
    const auto reason_end = load<std::uint32_t>(reason_ends_, i);
    if (entry_end < entry || reason_end < reason) return damaged_file();
    entry = entry_end;
    reason = reason_end;
  }
  if (entries_ + entry != mapping_.bytes().size() || reason != reasons_bytes) return damaged_file();
  return {};
}

template <typename T>
T TokenFile::load(std::uint64_t column, std::uint64_t i) const {
  T value{};
  std::memcpy(&value, mapping_.bytes().data() + column + i * sizeof(T), sizeof(T));
  return value;
}

std::string_view TokenFile::reason(std::uint64_t sample) const {
  const std::uint64_t begin = sample == 0 ? 0 : load<std::uint32_t>(reason_ends_, sample - 1);
  const std::uint64_t end = load<std::uint32_t>(reason_ends_, sample);
  const auto text = mapping_.bytes().subspan(reasons_, entries_ - reasons_);
  // A file that was cut gives zeros, which must not be a range beyond it.
  const std::uint64_t last = std::min<std::uint64_t>(end, text.size());
  const std::uint64_t first = std::min(begin, last);
  return {reinterpret_cast<const char*>(text.data()) + first, last - first};
}

std::span<const std::byte> TokenFile::entry(std::uint64_t sample) const {
  const std::uint64_t begin = sample == 0 ? 0 : load<std::uint64_t>(entry_ends_, sample - 1);
  const std::uint64_t end = load<std::uint64_t>(entry_ends_, sample);
  const auto entries = mapping_.bytes().subspan(entries_);
  const std::uint64_t last = std::min<std::uint64_t>(end, entries.size());
  const std::uint64_t first = std::min(begin, last);
  return entries.subspan(first, last - first);
}

PartShape TokenFile::shape(std::uint64_t sample) const {
  PartShape shape;
  shape.modality = Modality::kText;
  shape.format = MediaFormat::kTokens;
  shape.text_tokens = load<std::uint32_t>(text_tokens_, sample);
  shape.label_tokens = load<std::uint32_t>(label_tokens_, sample);
  shape.weighted = load<std::uint32_t>(weights_, sample) > 0;
  shape.encoded_bytes = std::ssize(entry(sample));
  return shape;
}

}  // namespace isocost
