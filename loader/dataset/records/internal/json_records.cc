#include "loader/dataset/records/internal/json_records.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "decode/bytes/sniff.h"
#include "loader/dataset/formats/other_format.h"

namespace isocost {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 18;
constexpr int kEnd = -1;

bool is_space(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

Error too_long() {
  return corrupt_record("longer than " + std::to_string(JsonRecords::kMaxBytes >> 20) +
                        " MiB, the limit of a record: name media as files instead of in base64");
}

// A range of bytes in their order.
class RangeReader final : public SequentialReader {
 public:
  RangeReader(std::shared_ptr<const ByteSource> bytes, std::int64_t begin, std::int64_t end)
      : bytes_(std::move(bytes)), begin_(begin), end_(end), at_(begin) {}

  Result<std::size_t> read(std::span<std::byte> destination) override {
    const auto left = static_cast<std::size_t>(end_ - at_);
    ISOCOST_ASSIGN(const std::size_t read,
                   bytes_->read_at(at_, destination.first(std::min(left, destination.size()))));
    at_ += static_cast<std::int64_t>(read);
    return read;
  }
  std::uint64_t done() const override { return static_cast<std::uint64_t>(at_ - begin_); }
  std::uint64_t total() const override { return static_cast<std::uint64_t>(end_ - begin_); }

 private:
  const std::shared_ptr<const ByteSource> bytes_;
  const std::int64_t begin_;
  const std::int64_t end_;
  std::int64_t at_;
};

// Follows JSON's strings and brackets, to find where a value ends.
class Nesting {
 public:
  // Returns whether `c` is a separator or closing bracket outside of the value.
  bool ends_before(char c) const { return !in_string_ && depth_ == 0 && (c == ',' || c == ']'); }

  void take(char c) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if ((c == '}' || c == ']') && depth_ > 0) {
      --depth_;
    }
  }

 private:
  std::uint64_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace

Result<std::unique_ptr<JsonRecords>> JsonRecords::open(const std::filesystem::path& path) {
  std::unique_ptr<JsonRecords> records(new JsonRecords(path));
  ISOCOST_ASSIGN(records->file_, SequentialReader::open(path));
  return begin(std::move(records));
}

Result<std::unique_ptr<JsonRecords>> JsonRecords::open(const std::filesystem::path& path,
                                                       std::shared_ptr<const ByteSource> bytes) {
  std::unique_ptr<JsonRecords> records(new JsonRecords(path));
  const std::int64_t size = bytes->size();
  records->file_ = std::make_unique<RangeReader>(std::move(bytes), 0, size);
  return begin(std::move(records));
}

Result<std::unique_ptr<JsonRecords>> JsonRecords::open_range(
    const std::filesystem::path& path, std::shared_ptr<const ByteSource> bytes,
    const RecordRange& range) {
  std::unique_ptr<JsonRecords> records(new JsonRecords(path));
  records->file_ = std::make_unique<RangeReader>(std::move(bytes), range.begin, range.end);
  records->ends_behind_separator_ = !range.is_last;
  if (range.begin == 0) return begin(std::move(records));
  records->buffer_offset_ = range.begin;
  records->is_array_ = range.is_array;
  records->line_ = range.line;
  records->number_ = range.number;
  return records;
}

Result<std::unique_ptr<JsonRecords>> JsonRecords::begin(std::unique_ptr<JsonRecords> records) {
  records->detect();
  if (auto& failure = records->failure_) return *std::move(failure);
  if (auto other = why_no_records({records->buffer_.data(), records->buffer_.size()})) {
    return Error(ErrorCode::kCorrupt,
                 records->path_.string() + ": no records of JSON: " + *std::move(other));
  }
  const auto head = std::as_bytes(std::span(records->buffer_));
  const Status is_text = check_is_text(
      {reinterpret_cast<const std::uint8_t*>(head.data()), head.size()}, MediaFormat::kJson);
  if (!is_text) return Error(is_text.error()).with_context(records->path_.string());
  return records;
}

void JsonRecords::detect() {
  // A byte order mark is no part of the first record.
  peek();
  const std::string_view read(buffer_.data(), buffer_.size());
  at_ = read.size() - without_byte_order_mark(read).size();
  std::size_t ahead = at_;
  while (ahead < buffer_.size() && is_space(buffer_[ahead])) ++ahead;
  is_array_ = ahead < buffer_.size() && buffer_[ahead] == '[';
  if (!is_array_) return;
  skip_spaces();
  get();
}

int JsonRecords::peek() {
  if (at_ == buffer_.size()) fill();
  return buffer_.empty() ? kEnd : static_cast<unsigned char>(buffer_[at_]);
}

// Fills the buffer, unless the file ends: a compressed file comes in pieces of any size, and the
// form of the file and its format are told by its beginning.
void JsonRecords::fill() {
  buffer_offset_ += static_cast<std::int64_t>(buffer_.size());
  buffer_.resize(kBuffer);
  at_ = 0;
  std::size_t filled = 0;
  while (filled < kBuffer) {
    const auto read = file_->read(std::as_writable_bytes(std::span(buffer_).subspan(filled)));
    if (!read) failure_ = read.error();
    if (!read || *read == 0) break;
    filled += *read;
  }
  buffer_.resize(filled);
}

int JsonRecords::get() {
  const int c = peek();
  if (c == kEnd) return c;
  ++at_;
  if (c == '\n') ++line_;
  return c;
}

void JsonRecords::skip_spaces() {
  while (is_space(peek())) get();
}

Result<std::optional<std::string>> JsonRecords::next() {
  record_ = {};
  if (ended_) return std::optional<std::string>();
  auto record = is_array_ ? next_element() : next_line();
  if (!failure_) return record;
  ended_ = true;
  return *failure_;
}

Result<std::optional<std::string>> JsonRecords::next_line() {
  while (peek() != kEnd) {
    number_ = record_line_ = line_;
    const std::int64_t begin = rest().begin;
    std::string text;
    bool fits = true;
    bool blank = true;
    for (int c = get(); c != kEnd && c != '\n'; c = get()) {
      blank = blank && is_space(c);
      fits = fits && text.size() < kMaxBytes;
      if (fits) text += static_cast<char>(c);
    }
    if (blank) continue;
    if (!fits) return too_long();
    record_ = {begin, begin + static_cast<std::int64_t>(text.size())};
    return std::optional(std::move(text));
  }
  ended_ = true;
  return std::optional<std::string>();
}

Result<std::optional<std::string>> JsonRecords::next_element() {
  if (array_ended_) return behind_array();
  skip_spaces();
  record_line_ = line_;
  if (ends_behind_separator_ && peek() == kEnd) {
    ended_ = true;
    return std::optional<std::string>();
  }
  const std::int64_t begin = rest().begin;
  if (number_ == 0 && peek() == ']') {
    get();
    array_ended_ = true;
    return behind_array();
  }
  ++number_;
  std::string text;
  bool fits = true;
  Nesting nesting;
  for (;;) {
    const int c = get();
    if (c == kEnd) {
      ended_ = true;
      return corrupt_record("the array does not end: the file may be cut off");
    }
    if (nesting.ends_before(static_cast<char>(c))) {
      array_ended_ = c == ']';
      break;
    }
    nesting.take(static_cast<char>(c));
    fits = fits && text.size() < kMaxBytes;
    if (fits) text += static_cast<char>(c);
  }
  if (!fits) return too_long();
  while (!text.empty() && is_space(text.back())) text.pop_back();
  record_ = {begin, begin + static_cast<std::int64_t>(text.size())};
  return std::optional(std::move(text));
}

Result<std::optional<std::string>> JsonRecords::behind_array() {
  ended_ = true;
  skip_spaces();
  if (peek() == kEnd) return std::optional<std::string>();
  record_line_ = line_;
  return corrupt_record("something follows the end of the array");
}

RecordRange JsonRecords::rest() const {
  RecordRange range;
  range.begin = buffer_offset_ + static_cast<std::int64_t>(at_);
  range.line = line_;
  range.number = number_;
  range.is_array = is_array_;
  return range;
}

std::string JsonRecords::location() const {
  std::string location = path_.string() + ":" + std::to_string(record_line_);
  if (is_array_) location += ", element " + std::to_string(number_);
  return location;
}

}  // namespace isocost
