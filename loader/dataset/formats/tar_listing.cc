#include "loader/dataset/formats/tar_listing.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "loader/dataset/formats/member_name.h"
#include "loader/dataset/formats/utf8_locale.h"

namespace isocost {
namespace {

constexpr std::int64_t kBlock = 512;
constexpr std::size_t kMinRead = std::size_t{1} << 10;
constexpr std::size_t kMaxRead = std::size_t{128} << 10;

constexpr std::string_view kCopyAgain = "copy the shard again";

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

std::string problem_of_name(std::string_view name, std::string_view printable) {
  if (name.empty()) return "an entry without a name";
  if (!is_utf8(name)) return "its name is not UTF-8; rename it";
  if (printable != name) return "its name has a control character; rename it";
  if (name.front() == '/') return "its name is an absolute path; pack it with a relative one";
  if (has_parent_component(name)) return "its name has a '..' component; pack it without";
  return "";
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
  std::string problem;
  bool broke_off = false;
  bool ended = false;

  void read_ahead();
  bool step();
  void take(archive_entry* entry);
  void end_of_archive();
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
  if (archive_entry_filetype(entry) != AE_IFDIR) take(entry);
  return problem.empty();
}

void TarListing::State::take(archive_entry* entry) {
  TarMember member;
  const std::string raw = name_of(entry);
  member.name = printable_utf8(raw);
  member.problem = problem_of_name(raw, member.name);
  if (member.problem.empty()) member.problem = problem_of_kind(entry);
  member.offset = archive_filter_bytes(reader.get(), 0);
  member.size = std::max<std::int64_t>(archive_entry_size(entry), 0);
  const std::int64_t rest = std::max<std::int64_t>(feed.source->size() - member.offset, 0);
  if (member.problem.empty() && member.size > rest) {
    member.problem = fmt::format("cut off: {} of {} bytes are there, the shard ends at byte {}; {}",
                                 rest, member.size, feed.source->size(), kCopyAgain);
    problem = member.problem;
    broke_off = true;
  }
  ahead = std::move(member);
}

// Records the end. Without the end mark (a block of zeros) members may be missing.
void TarListing::State::end_of_archive() {
  const std::int64_t position = archive_read_header_position(reader.get());
  std::array<std::byte, kBlock> block{};
  const auto read = feed.source->read_at(position, block);
  const bool zeros =
      read && *read == block.size() &&
      std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
  if (!zeros) {
    problem = fmt::format(
        "ends at byte {} without the mark that ends a tar file, so later samples may be missing; "
        "{}",
        feed.source->size(), kCopyAgain);
  }
}

void TarListing::State::damaged() {
  broke_off = true;
  const char* text = archive_error_string(reader.get());
  const std::string_view detail = text != nullptr ? text : "unknown damage";
  if (feed.error) {
    problem = fmt::format("cannot be read: {}", feed.error->message());
  } else if (last_name.empty()) {
    problem = fmt::format("not a tar file ({}); {} or remove it", detail, kCopyAgain);
  } else {
    problem =
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
    state->problem = fmt::format("empty (0 bytes); {} or remove it", kCopyAgain);
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
  state.last_name = member.name;
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

const std::string& TarListing::problem() const { return state_->problem; }
bool TarListing::broke_off() const { return state_->broke_off; }

}  // namespace isocost
