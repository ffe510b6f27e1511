#include "loader/dataset/formats/tar_listing.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "loader/dataset/formats/other_format.h"
#include "loader/dataset/formats/utf8_locale.h"

namespace isocost {
namespace {

constexpr std::int64_t kBlock = 512;
constexpr std::size_t kMinRead = std::size_t{1} << 10;
constexpr std::size_t kMaxRead = std::size_t{128} << 10;
// Writers fill the last record with zeros; GNU tar's longest common record is 1 MiB.
constexpr std::int64_t kMostPadding = std::int64_t{1} << 20;

constexpr std::string_view kCopyAgain = "copy the shard again";
constexpr std::string_view kHeaderTooLarge = "header too large";  // libarchive's words

std::int64_t padded(std::int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

// Feeds libarchive. Blocks are small after a seek, when only a header is needed, and grow with
// sequential reading.
struct Feed {
  const ByteSource* source = nullptr;
  std::int64_t position = 0;
  std::size_t next_read = kMinRead;
  std::vector<std::byte> block = std::vector<std::byte>(kMaxRead);
  std::optional<Error> error;
};

la_ssize_t feed_read(archive* reader, void* context, const void** block) {
  Feed& feed = *static_cast<Feed*>(context);
  auto read = feed.source->read_at(feed.position, {feed.block.data(), feed.next_read});
  if (!read) {
    archive_set_error(reader, EIO, "%s", read.error().message().c_str());
    feed.error = std::move(read).error();
    return ARCHIVE_FATAL;
  }
  feed.position += static_cast<std::int64_t>(*read);
  feed.next_read = std::min(kMaxRead, feed.next_read * 2);
  *block = feed.block.data();
  return static_cast<la_ssize_t>(*read);
}

la_int64_t feed_skip(archive* /*reader*/, void* context, la_int64_t request) {
  Feed& feed = *static_cast<Feed*>(context);
  const std::int64_t rest = std::max<std::int64_t>(feed.source->size() - feed.position, 0);
  const std::int64_t skipped = std::clamp<std::int64_t>(request, 0, rest);
  feed.position += skipped;
  if (skipped > 0) feed.next_read = kMinRead;
  return skipped;
}

bool is_zeros(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte each) { return each == std::byte{0}; });
}

struct FreeArchive {
  void operator()(archive* reader) const { archive_read_free(reader); }
};

std::string name_of(archive_entry* entry) {
  const char* name = archive_entry_pathname(entry);
  if (name == nullptr) name = archive_entry_pathname_utf8(entry);
  std::string_view view = name != nullptr ? name : "";
  while (view.starts_with("./")) view.remove_prefix(2);
  return std::string(view);
}

std::string problem_of_kind(archive_entry* entry) {
  if (archive_entry_hardlink(entry) != nullptr) {
    return "a hard link, which is not followed; pack the file itself (tar --hard-dereference)";
  }
  if (archive_entry_filetype(entry) == AE_IFLNK) {
    return "a symbolic link, which is not followed; pack the file itself (tar --dereference)";
  }
  if (archive_entry_filetype(entry) != AE_IFREG) return "not a regular file";
  if (archive_entry_sparse_count(entry) > 0) {
    return "a sparse file, whose bytes do not lie in one piece; pack it without --sparse";
  }
  if (archive_entry_size_is_set(entry) == 0 || archive_entry_size(entry) < 0) {
    return "its header has no size";
  }
  return "";
}

}  // namespace

struct TarListing::State {
  std::unique_ptr<archive, FreeArchive> reader;
  Feed feed;
  std::optional<TarMember> ahead;
  std::optional<std::int64_t> following;  // offset of the header after the last member returned
  std::string last_name;
  std::int64_t last_end = 0;  // where the header after the last entry belongs
  TarEnd end;
  bool broke_off = false;
  bool ended = false;

  void read_ahead();
  bool step();
  void take(archive_entry* entry);
  void end_of_archive();
  void look_behind(std::int64_t mark);
  bool lacks_only_the_mark() const;
  void damaged();
};

// Reads headers until `ahead` holds one or the archive has ended.
void TarListing::State::read_ahead() {
  const Utf8Locale locale;
  while (!ended && !ahead) {
    if (!step()) ended = true;
  }
}

bool TarListing::State::step() {
  archive_entry* entry = nullptr;
  const int code = archive_read_next_header(reader.get(), &entry);
  if (!following) following = archive_read_header_position(reader.get());
  if (code == ARCHIVE_EOF) {
    end_of_archive();
    return false;
  }
  if (code != ARCHIVE_OK && code != ARCHIVE_WARN) {
    damaged();
    return false;
  }
  const std::int64_t size = std::max<std::int64_t>(archive_entry_size(entry), 0);
  last_end = padded(archive_filter_bytes(reader.get(), 0) + std::min(size, feed.source->size()));
  if (archive_entry_filetype(entry) != AE_IFDIR) take(entry);
  return end.problem.empty();
}

void TarListing::State::take(archive_entry* entry) {
  TarMember member;
  member.name = name_of(entry);
  member.problem = member.name.empty() ? "an entry without a name" : problem_of_kind(entry);
  member.header = archive_read_header_position(reader.get());
  member.offset = archive_filter_bytes(reader.get(), 0);
  member.size = std::max<std::int64_t>(archive_entry_size(entry), 0);
  last_name = printable_utf8(member.name);
  const std::int64_t rest = std::max<std::int64_t>(feed.source->size() - member.offset, 0);
  if (member.problem.empty() && member.size > rest) {
    member.problem = fmt::format("cut off: {} of {} bytes are there, the shard ends at byte {}; {}",
                                 rest, member.size, feed.source->size(), kCopyAgain);
    end.problem = fmt::format("cut off within '{}': {} of its {} bytes are there; {}", last_name,
                              rest, member.size, kCopyAgain);
    broke_off = true;
  }
  ahead = std::move(member);
}

void TarListing::State::end_of_archive() {
  const std::int64_t position = archive_read_header_position(reader.get());
  std::array<std::byte, kBlock> block{};
  const auto read = feed.source->read_at(position, block);
  end.has_mark = read && *read == block.size() && is_zeros(block);
  if (end.has_mark) look_behind(position);
}

// Looks for bytes that no reader of tar files reads. More zeros than padding are such bytes, too: a
// download that was allotted its whole size and not completed ends in them.
void TarListing::State::look_behind(std::int64_t mark) {
  const std::int64_t size = feed.source->size();
  for (std::int64_t at = mark; at < size;) {
    const auto wanted = static_cast<std::size_t>(std::min<std::int64_t>(kMaxRead, size - at));
    const std::span block = std::span(feed.block).first(wanted);
    const auto read = feed.source->read_at(at, block);
    if (!read || *read == 0) return;  // a source that cannot be read says so itself
    const auto used = block.first(*read);
    const auto found = std::ranges::find_if(used, [](std::byte b) { return b != std::byte{0}; });
    at += found - used.begin();
    if (found != used.end() || at - mark > kMostPadding) {
      end.unread_offset = found != used.end() ? at : mark;
      end.unread_bytes = size - end.unread_offset;
      return;
    }
  }
}

// Returns whether the last entry has all of its bytes, followed only by zeros.
bool TarListing::State::lacks_only_the_mark() const {
  const std::int64_t rest = feed.source->size() - last_end;
  if (last_name.empty() || rest >= kBlock) return false;
  if (rest <= 0) return true;  // cut in the padding
  std::vector<std::byte> block(static_cast<std::size_t>(rest));
  const auto read = feed.source->read_at(last_end, block);
  return read && is_zeros(block);
}

void TarListing::State::damaged() {
  broke_off = true;
  const char* text = archive_error_string(reader.get());
  const std::string_view detail = text != nullptr ? text : "unknown damage";
  if (feed.error) {
    end.problem = fmt::format("cannot be read: {}", feed.error->message());
  } else if (detail.find(kHeaderTooLarge) != detail.npos) {
    end.problem = fmt::format(
        "a member{} has names and attributes of more than 1 MiB, which are not read; pack it again "
        "without them",
        last_name.empty() ? "" : " after '" + last_name + "'");
  } else if (last_name.empty()) {
    end.problem = why_no_tar(*feed.source, detail);
  } else if (!lacks_only_the_mark()) {
    end.problem =
        fmt::format("damaged or cut off after '{}', near byte {} of {} ({}); {}", last_name,
                    archive_filter_bytes(reader.get(), 0), feed.source->size(), detail, kCopyAgain);
  }
}

TarListing::TarListing(std::unique_ptr<State> state) : state_(std::move(state)) {}
TarListing::TarListing(TarListing&&) noexcept = default;
TarListing& TarListing::operator=(TarListing&&) noexcept = default;
TarListing::~TarListing() = default;

Result<TarListing> TarListing::open(const ByteSource& source) {
  auto state = std::make_unique<State>();
  state->feed.source = &source;
  if (source.size() == 0) {
    state->end.problem = fmt::format("empty (0 bytes); {} or remove it", kCopyAgain);
    state->ended = true;
    return TarListing(std::move(state));
  }
  state->reader.reset(archive_read_new());
  archive* reader = state->reader.get();
  if (reader == nullptr || archive_read_support_format_tar(reader) != ARCHIVE_OK) {
    return Error(ErrorCode::kInternal, "libarchive cannot read tar files");
  }
  archive_read_set_read_callback(reader, feed_read);
  archive_read_set_skip_callback(reader, feed_skip);
  archive_read_set_callback_data(reader, &state->feed);
  if (archive_read_open1(reader) != ARCHIVE_OK) {
    state->damaged();
    state->ended = true;
  }
  return TarListing(std::move(state));
}

std::optional<TarMember> TarListing::next() {
  State& state = *state_;
  state.read_ahead();
  if (!state.ahead) return std::nullopt;
  TarMember member = *std::move(state.ahead);
  state.ahead.reset();
  if (state.ended) return member;
  // The next header must follow the bytes; otherwise libarchive's position is wrong.
  state.following.reset();
  state.read_ahead();
  const bool follows = state.following == padded(member.offset + member.size);
  if (member.problem.empty() && !follows && !state.broke_off) {
    member.problem = "its bytes do not lie in one piece; pack it as a plain file";
  }
  return member;
}

const TarEnd& TarListing::end() const { return state_->end; }

}  // namespace isocost
