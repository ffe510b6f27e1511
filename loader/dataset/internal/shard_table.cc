#include "loader/dataset/internal/shard_table.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace isocost {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

constexpr std::array<char, 8> kMagic = {'I', 'S', 'O', 'C', 'T', 'B', 'L', '\n'};
constexpr std::uint32_t kVersion = 1;

/// The first bytes of the file, little-endian, as in docs/index_format.md.
struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t crc = 0;  ///< CRC-32 of the bytes from 16 on.
  std::uint64_t file_bytes = 0;
  std::uint64_t options = 0;
  std::uint64_t shards = 0;
  std::uint32_t tokenizers = 0;
  std::uint32_t rows = 0;
};
static_assert(sizeof(Header) == kTableHeaderBytes && std::is_trivially_copyable_v<Header>);

std::uint32_t crc_of(std::span<const std::byte> bytes) {
  const auto covered = bytes.subspan(offsetof(Header, file_bytes));
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(covered.data()), covered.size()));
}

Error broken(std::string_view what) {
  return {ErrorCode::kCorrupt, fmt::format("broken table: {}", what)};
}

class Writer {
 public:
  Writer() : bytes_(sizeof(Header)) {}

  template <typename T>
  void add(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    append(&value, sizeof(T));
  }
  void add(std::string_view text) {
    add(static_cast<std::uint32_t>(text.size()));
    append(text.data(), text.size());
  }
  void add(const FileStamp& stamp) {
    add(stamp.bytes);
    add(stamp.mtime_ns);
  }
  template <typename T>
  void add(std::span<const T> values) {
    add(static_cast<std::uint32_t>(values.size()));
    append(values.data(), values.size_bytes());
  }

  std::vector<std::byte> finish(Header header) {
    header.file_bytes = bytes_.size();
    std::memcpy(bytes_.data(), &header, sizeof(header));
    header.crc = crc_of(bytes_);
    std::memcpy(bytes_.data(), &header, sizeof(header));
    return std::move(bytes_);
  }

 private:
  void append(const void* from, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }

  std::vector<std::byte> bytes_;
};

// Reads values one after the other. After the end of the bytes, and after `fail`, all are zeros.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
  T value() {
    T read{};
    if (left_.size() < sizeof(T)) {
      fail();
      return read;
    }
    std::memcpy(&read, left_.data(), sizeof(T));
    left_ = left_.subspan(sizeof(T));
    return read;
  }
  // Returns a number of values that take at least so many bytes each, which are there.
  std::uint32_t count(std::size_t bytes_each) {
    const auto read = value<std::uint32_t>();
    if (read <= left_.size() / bytes_each) return read;
    fail();
    return 0;
  }
  std::string text() {
    const std::uint32_t size = count(1);
    std::string read(reinterpret_cast<const char*>(left_.data()), size);
    left_ = left_.subspan(size);
    return read;
  }
  FileStamp stamp() {
    const auto bytes = value<std::int64_t>();
    return {bytes, value<std::int64_t>()};
  }
  template <typename T>
  std::vector<T> values() {
    std::vector<T> read(count(sizeof(T)));
    if (!read.empty()) std::memcpy(read.data(), left_.data(), read.size() * sizeof(T));
    left_ = left_.subspan(read.size() * sizeof(T));
    return read;
  }
  void fail() {
    failed_ = true;
    left_ = {};
  }
  bool failed() const { return failed_; }
  bool at_end() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
  bool failed_ = false;
};

void add_cut(Writer& writer, const TurnCut& cut) {
  writer.add(cut.end.ids);
  writer.add(cut.end.placeholders);
  for (const std::uint32_t media : cut.end.media) writer.add(media);
  writer.add(cut.at.ids);
  writer.add(cut.at.turns);
  writer.add(cut.at.weights);
  writer.add(cut.label_tokens);
}

TurnCut read_cut(Reader& reader) {
  TurnCut cut;
  cut.end.ids = reader.value<std::uint32_t>();
  cut.end.placeholders = reader.value<std::uint32_t>();
  for (std::uint32_t& media : cut.end.media) media = reader.value<std::uint32_t>();
  cut.at.ids = reader.value<std::uint32_t>();
  cut.at.turns = reader.value<std::uint32_t>();
  cut.at.weights = reader.value<std::uint32_t>();
  cut.label_tokens = reader.value<std::int64_t>();
  if (cut.end.placeholders > cut.end.ids || cut.at.ids > cut.end.ids || cut.label_tokens < 0) {
    reader.fail();
  }
  return cut;
}
constexpr std::size_t kCutBytes = 8 * sizeof(std::uint32_t) + sizeof(std::int64_t);

void add_selection(Writer& writer, const ShardSelection& selection) {
  writer.add(selection.bits());
  writer.add(static_cast<std::uint32_t>(selection.cuts()));
  for (std::size_t i = 0; i < selection.cuts(); ++i) {
    writer.add(selection.cut_sample(i));
    add_cut(writer, selection.cut(i));
  }
}

Result<ShardSelection> read_selection(Reader& reader, std::uint64_t samples) {
  auto bits = reader.values<std::uint64_t>();
  std::vector<std::uint32_t> cut_samples(reader.count(sizeof(std::uint32_t) + kCutBytes));
  std::vector<TurnCut> cuts(cut_samples.size());
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    cut_samples[i] = reader.value<std::uint32_t>();
    cuts[i] = read_cut(reader);
  }
  return ShardSelection::create(samples, std::move(bits), std::move(cut_samples), std::move(cuts));
}

void add_remarks(Writer& writer, const std::vector<IndexedRemark>& remarks) {
  writer.add(static_cast<std::uint32_t>(remarks.size()));
  for (const IndexedRemark& remark : remarks) {
    writer.add(remark.kind);
    writer.add(remark.count);
    writer.add(std::string_view(remark.name));
    writer.add(std::string_view(remark.detail));
  }
}

std::vector<IndexedRemark> read_remarks(Reader& reader) {
  std::vector<IndexedRemark> remarks(reader.count(1 + sizeof(std::uint64_t) + 8));
  for (IndexedRemark& remark : remarks) {
    remark.kind = reader.value<RemarkKind>();
    remark.count = reader.value<std::uint64_t>();
    remark.name = reader.text();
    remark.detail = reader.text();
    if (remark.kind > RemarkKind::kJsonKey) reader.fail();
  }
  return remarks;
}

void add_bad(Writer& writer, const std::vector<BadSample>& bad) {
  writer.add(static_cast<std::uint32_t>(bad.size()));
  for (const BadSample& sample : bad) {
    writer.add(std::string_view(sample.key));
    writer.add(std::string_view(sample.part));
    writer.add(std::string_view(sample.reason));
    writer.add(static_cast<std::uint8_t>(sample.over_limit ? 1 : 0));
  }
}

std::vector<BadSample> read_bad(Reader& reader) {
  std::vector<BadSample> bad(reader.count(3 * sizeof(std::uint32_t) + 1));
  for (BadSample& sample : bad) {
    sample.key = reader.text();
    sample.part = reader.text();
    sample.reason = reader.text();
    sample.over_limit = reader.value<std::uint8_t>() != 0;
  }
  return bad;
}

// Numbers of tokenizers from 1 on. Most tables have none or one.
class Tokenizers {
 public:
  std::uint32_t number(const ShardRow& row) {
    if (!row.tokenizer) return 0;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (*list_[i] == *row.tokenizer) return static_cast<std::uint32_t>(i + 1);
    }
    list_.push_back(row.tokenizer.get());
    return static_cast<std::uint32_t>(list_.size());
  }
  const std::vector<const TokenizerIdentity*>& list() const { return list_; }

 private:
  std::vector<const TokenizerIdentity*> list_;
};

void add_tokenizer(Writer& writer, const TokenizerIdentity& tokenizer) {
  for (const std::uint64_t hash :
       {tokenizer.tokenizer, tokenizer.chat_template, tokenizer.placeholders,
        tokenizer.text_settings, tokenizer.version}) {
    writer.add(hash);
  }
  writer.add(std::string_view(tokenizer.options));
}

std::shared_ptr<const TokenizerIdentity> read_tokenizer(Reader& reader) {
  auto tokenizer = std::make_shared<TokenizerIdentity>();
  for (std::uint64_t* hash :
       {&tokenizer->tokenizer, &tokenizer->chat_template, &tokenizer->placeholders,
        &tokenizer->text_settings, &tokenizer->version}) {
    *hash = reader.value<std::uint64_t>();
  }
  tokenizer->options = reader.text();
  return tokenizer;
}

void add_row(Writer& writer, const ShardRow& row, std::uint32_t tokenizer) {
  writer.add(row.identity.stamp);
  writer.add(row.identity.reading);
  writer.add(row.identity.origin);
  writer.add(row.index);
  writer.add(row.tokens);
  writer.add(row.directory);
  writer.add(row.condition);
  writer.add(static_cast<std::uint8_t>(row.has_end_mark ? 1 : 0));
  writer.add(tokenizer);
  for (const std::uint64_t number :
       {row.content_hash, row.samples, row.bad, row.samples_when_whole, row.usable, row.keys_hash,
        row.cuts_hash, row.text_tokens, row.weighted.count, row.weighted.first}) {
    writer.add(number);
  }
  writer.add(row.weighted.weight);
  writer.add(std::string_view(row.problem));
  writer.add(std::string_view(row.unread));
  add_remarks(writer, row.remarks);
}

// Returns the number of the row's tokenizer, 0 for none.
std::uint32_t read_row(Reader& reader, ShardRow& row) {
  row.identity.stamp = reader.stamp();
  row.identity.reading = reader.value<std::uint64_t>();
  row.identity.origin = reader.value<std::uint64_t>();
  row.index = reader.stamp();
  row.tokens = reader.stamp();
  row.directory = reader.value<std::uint8_t>();
  row.condition = reader.value<ShardCondition>();
  row.has_end_mark = reader.value<std::uint8_t>() != 0;
  const auto tokenizer = reader.value<std::uint32_t>();
  for (std::uint64_t* number : {&row.content_hash, &row.samples, &row.bad, &row.samples_when_whole,
                                &row.usable, &row.keys_hash, &row.cuts_hash, &row.text_tokens,
                                &row.weighted.count, &row.weighted.first}) {
    *number = reader.value<std::uint64_t>();
  }
  row.weighted.weight = reader.value<float>();
  row.problem = reader.text();
  row.unread = reader.text();
  row.remarks = read_remarks(reader);
  return tokenizer;
}

// Returns whether the numbers of a row can be those of a shard.
bool is_sound(const ShardRow& row, const ShardSelection& selection,
              const std::vector<BadSample>& bad) {
  if (row.condition > ShardCondition::kLost || row.usable != selection.size()) return false;
  if (row.bad > bad.size() || bad.size() - row.bad != row.samples - row.usable) return false;
  const WeightedSamples& weighted = row.weighted;
  if (weighted.count > row.usable || !std::isfinite(weighted.weight) || weighted.weight < 0) {
    return false;
  }
  const bool has_first = weighted.count == 0 || weighted.first < row.usable;
  return has_first && (row.tokenizer != nullptr) == (row.tokens != FileStamp{}) &&
         (row.tokenizer != nullptr || selection.cuts() == 0);
}

}  // namespace

std::vector<std::byte> encode_table(const TableIdentity& identity,
                                    std::span<const std::uint64_t> keys,
                                    const SelectedShards& shards) {
  Header header;
  header.options = identity.options;
  header.shards = identity.shards;
  Tokenizers tokenizers;
  for (const ShardRow& row : shards.rows) {
    static_cast<void>(tokenizers.number(row));
    header.rows += row.has_index_file() ? 1U : 0U;
  }
  header.tokenizers = static_cast<std::uint32_t>(tokenizers.list().size());
  Writer writer;
  for (const TokenizerIdentity* tokenizer : tokenizers.list()) add_tokenizer(writer, *tokenizer);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const ShardRow& row = shards.rows[i];
    if (!row.has_index_file()) continue;
    writer.add(keys[i]);
    add_row(writer, row, tokenizers.number(row));
    add_selection(writer, shards.selections[i]);
    add_bad(writer, shards.bad[i]);
  }
  return writer.finish(header);
}

Status check_table_begin(std::span<const std::byte> begin, std::int64_t file_bytes) {
  Header header;
  if (begin.size() < sizeof(header)) return broken("shorter than its header");
  std::memcpy(&header, begin.data(), sizeof(header));
  if (header.magic != kMagic) return broken("not a table");
  if (header.version != kVersion) {
    return Error(ErrorCode::kUnsupported, fmt::format("table of version {}", header.version));
  }
  if (header.file_bytes == static_cast<std::uint64_t>(file_bytes)) return {};
  return broken("its size is not what it says");
}

Result<ShardTable> decode_table(std::span<const std::byte> bytes, const ProbeLimits& limits) {
  ISOCOST_TRY(check_table_begin(bytes, std::ssize(bytes)));
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.crc != crc_of(bytes)) return broken("checksum");
  Reader reader(bytes.subspan(sizeof(header)));
  constexpr std::size_t kLeastBytes = 40;  // of a tokenizer, and of a row, at least
  if (header.rows > bytes.size() / kLeastBytes || header.tokenizers > bytes.size() / kLeastBytes) {
    return broken("more rows than bytes");
  }
  std::vector<std::shared_ptr<const TokenizerIdentity>> tokenizers(header.tokenizers);
  for (auto& tokenizer : tokenizers) tokenizer = read_tokenizer(reader);
  ShardTable table{.identity = {header.options, header.shards}, .keys = {}, .shards = {}};
  table.keys.resize(header.rows);
  table.shards.resize(header.rows);
  for (std::size_t i = 0; i < header.rows && !reader.failed(); ++i) {
    ShardRow& row = table.shards.rows[i];
    table.keys[i] = reader.value<std::uint64_t>();
    const std::uint32_t tokenizer = read_row(reader, row);
    if (tokenizer > tokenizers.size()) return broken("an unknown tokenizer");
    if (tokenizer > 0) row.tokenizer = tokenizers[tokenizer - 1];
    row.identity.limits = limits;
    ISOCOST_ASSIGN(table.shards.selections[i], read_selection(reader, row.samples));
    row.cuts = table.shards.selections[i].cuts();
    table.shards.bad[i] = read_bad(reader);
    if (!is_sound(row, table.shards.selections[i], table.shards.bad[i])) {
      return broken("a row that no shard has");
    }
  }
  if (reader.failed() || !reader.at_end()) return broken("rows that do not fit into it");
  return table;
}

}  // namespace isocost
