#include "decode/image/internal/heif_layout.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/internal/heif_boxes.h"

namespace isocost {
namespace {

constexpr std::uint64_t kMostItems = 20'000;

Error damaged_boxes() { return corrupt("the boxes that describe its picture are damaged"); }

Error unread_picture(const std::string& what) {
  return {ErrorCode::kUnsupported, "its picture is " + what + ", which is not read: convert it"};
}

// Reads numbers of a box, one after another.
class BoxNumbers {
 public:
  BoxNumbers(HeaderWindow& window, const HeifBox& box)
      : window_(window), at_(box.body), end_(box.end) {}

  Result<std::uint64_t> next(std::size_t bytes) {
    if (bytes == 0) return std::uint64_t{0};
    if (end_ - at_ < static_cast<std::int64_t>(bytes)) return damaged_boxes();
    ISOCOST_ASSIGN(const ByteView raw, window_.all(at_, bytes, "a box"));
    at_ += static_cast<std::int64_t>(bytes);
    return big_endian(raw, 0, bytes);
  }
  // Reads the version of a full box and passes over its flags.
  Result<std::uint64_t> version() {
    ISOCOST_ASSIGN(const std::uint64_t both, next(4));
    flags_ = both & 0xFFFFFF;
    return both >> 24;
  }
  std::uint64_t flags() const { return flags_; }
  std::int64_t at() const { return at_; }
  bool is_at_end() const { return at_ >= end_; }

 private:
  HeaderWindow& window_;
  std::int64_t at_;
  std::int64_t end_;
  std::uint64_t flags_ = 0;
};

// The boxes within a `meta` box; those that are absent are empty.
struct Meta {
  std::optional<HeifBox> primary;
  std::optional<HeifBox> items;
  std::optional<HeifBox> places;
  std::optional<HeifBox> references;
  std::optional<HeifBox> data;
  std::optional<HeifBox> properties;
  std::optional<HeifBox> associations;
};

// Returns whether bytes after the picture are no box that was cut off: cameras append data of
// their own, and other readers ignore it.
bool is_foreign(const HeifBox& box, const Error& error) {
  constexpr std::array<std::string_view, 7> kOuter = {"mdat", "moov", "moof", "free",
                                                      "skip", "meta", "uuid"};
  return error.code() == ErrorCode::kCorrupt && std::ranges::find(kOuter, box.type) == kOuter.end();
}

// Finds what the file says of its items.
class Items {
 public:
  explicit Items(HeaderWindow& window) : window_(window) {}

  // Finds `meta`, and walks the outermost boxes to the end, so that a file that was cut off is
  // known by its last one.
  Status open() {
    HeifBoxes boxes(window_, 0, window_.size());
    HeifBox box;
    std::optional<HeifBox> meta;
    for (;;) {
      box.type.clear();
      auto is_there = boxes.next(box);
      if (!is_there && (!meta || !is_foreign(box, is_there.error()))) {
        return std::move(is_there).error();
      }
      if (!is_there || !*is_there) break;
      if (box.type == "meta" && !meta) meta = box;
    }
    if (!meta) return unread_picture("a sequence of frames without a still one");
    constexpr std::int64_t kVersion = 4;
    if (meta->end - meta->body < kVersion) return damaged_boxes();
    return read_meta(meta->body + kVersion, meta->end);
  }

  Result<std::uint64_t> primary() const {
    if (!meta_.primary) return unread_picture("a sequence of frames without a still one");
    BoxNumbers numbers(window_, *meta_.primary);
    ISOCOST_ASSIGN(const std::uint64_t version, numbers.version());
    return numbers.next(version == 0 ? 2 : 4);
  }

  // Returns the four characters that name an item's kind.
  Result<std::string> type(std::uint64_t item) const {
    if (!meta_.items) return damaged_boxes();
    BoxNumbers numbers(window_, *meta_.items);
    ISOCOST_ASSIGN(const std::uint64_t version, numbers.version());
    ISOCOST_ASSIGN(const std::uint64_t count, numbers.next(version == 0 ? 2 : 4));
    if (count > kMostItems) return damaged_boxes();
    HeifBoxes entries(window_, numbers.at(), meta_.items->end);
    HeifBox entry;
    for (;;) {
      ISOCOST_ASSIGN(const bool is_there, entries.next(entry));
      if (!is_there) return damaged_boxes();
      if (entry.type != "infe") continue;
      BoxNumbers info(window_, entry);
      ISOCOST_ASSIGN(const std::uint64_t info_version, info.version());
      if (info_version < 2) continue;
      ISOCOST_ASSIGN(const std::uint64_t id, info.next(info_version == 2 ? 2 : 4));
      if (id != item) continue;
      ISOCOST_ASSIGN(const std::uint64_t protection, info.next(2));
      if (protection != 0) return unread_picture("encrypted");
      ISOCOST_ASSIGN(const std::uint64_t type, info.next(4));
      return four_characters(type);
    }
  }

  // Returns the properties of an item, in their order.
  Result<std::vector<HeifBox>> properties(std::uint64_t item) const {
    if (!meta_.associations || !meta_.properties) return damaged_boxes();
    ISOCOST_ASSIGN(const std::vector<std::uint64_t> indices,
                   associations(*meta_.associations, item));
    std::vector<HeifBox> all;
    HeifBoxes boxes(window_, meta_.properties->body, meta_.properties->end);
    HeifBox box;
    for (;;) {
      ISOCOST_ASSIGN(const bool is_there, boxes.next(box));
      if (!is_there) break;
      all.push_back(box);
    }
    std::vector<HeifBox> found;
    for (const std::uint64_t index : indices) {
      if (index > all.size()) return damaged_boxes();
      if (index > 0) found.push_back(all[index - 1]);
    }
    return found;
  }

  // Returns the items that a grid is made of.
  Result<std::vector<std::uint64_t>> cells(std::uint64_t grid) const {
    if (!meta_.references) return damaged_boxes();
    BoxNumbers head(window_, *meta_.references);
    ISOCOST_ASSIGN(const std::uint64_t version, head.version());
    const std::size_t id_bytes = version == 0 ? 2 : 4;
    HeifBoxes references(window_, head.at(), meta_.references->end);
    HeifBox reference;
    for (;;) {
      ISOCOST_ASSIGN(const bool is_there, references.next(reference));
      if (!is_there) return damaged_boxes();
      if (reference.type != "dimg") continue;
      BoxNumbers numbers(window_, reference);
      ISOCOST_ASSIGN(const std::uint64_t from, numbers.next(id_bytes));
      if (from != grid) continue;
      ISOCOST_ASSIGN(const std::uint64_t count, numbers.next(2));
      std::vector<std::uint64_t> items;
      for (std::uint64_t i = 0; i < count; ++i) {
        ISOCOST_ASSIGN(const std::uint64_t to, numbers.next(id_bytes));
        items.push_back(to);
      }
      return items;
    }
  }

  // Returns where the data of an item begins, all of it in one piece of at least `least` bytes.
  Result<std::int64_t> data(std::uint64_t item, std::uint64_t least) const;

 private:
  static std::string four_characters(std::uint64_t number) {
    std::string text;
    for (int shift = 24; shift >= 0; shift -= 8) {
      const auto c = static_cast<char>((number >> shift) & 0xFF);
      text.push_back(c >= ' ' && c <= '~' ? c : '?');
    }
    return text;
  }

  Status read_meta(std::int64_t begin, std::int64_t end) {
    HeifBoxes boxes(window_, begin, end);
    HeifBox box;
    for (;;) {
      ISOCOST_ASSIGN(const bool is_there, boxes.next(box));
      if (!is_there) return {};
      take_first(box, "pitm", meta_.primary);
      take_first(box, "iinf", meta_.items);
      take_first(box, "iloc", meta_.places);
      take_first(box, "iref", meta_.references);
      take_first(box, "idat", meta_.data);
      if (box.type == "iprp" && !meta_.properties) ISOCOST_TRY(read_property_boxes(box));
    }
  }

  // Keeps the first of several boxes of a kind, as libheif does.
  static void take_first(const HeifBox& box, std::string_view kind, std::optional<HeifBox>& kept) {
    if (box.type == kind && !kept) kept = box;
  }

  Status read_property_boxes(const HeifBox& parent) {
    HeifBoxes boxes(window_, parent.body, parent.end);
    HeifBox box;
    for (;;) {
      ISOCOST_ASSIGN(const bool is_there, boxes.next(box));
      if (!is_there) return {};
      take_first(box, "ipco", meta_.properties);
      if (box.type == "ipma") {
        if (meta_.associations) return unread_picture("described by several lists of properties");
        meta_.associations = box;
      }
    }
  }

  Result<std::vector<std::uint64_t>> associations(const HeifBox& box, std::uint64_t item) const {
    BoxNumbers numbers(window_, box);
    ISOCOST_ASSIGN(const std::uint64_t version, numbers.version());
    const std::size_t index_bytes = (numbers.flags() & 1) != 0 ? 2 : 1;
    const std::uint64_t index_mask = index_bytes == 2 ? 0x7FFF : 0x7F;
    ISOCOST_ASSIGN(const std::uint64_t entries, numbers.next(4));
    if (entries > kMostItems) return damaged_boxes();
    std::vector<std::uint64_t> found;
    for (std::uint64_t i = 0; i < entries; ++i) {
      ISOCOST_ASSIGN(const std::uint64_t id, numbers.next(version == 0 ? 2 : 4));
      ISOCOST_ASSIGN(const std::uint64_t count, numbers.next(1));
      for (std::uint64_t k = 0; k < count; ++k) {
        ISOCOST_ASSIGN(const std::uint64_t index, numbers.next(index_bytes));
        if (id == item) found.push_back(index & index_mask);
      }
      if (id == item) return found;
    }
    return found;
  }

  HeaderWindow& window_;
  Meta meta_;
};

// A record of `iloc`: where the data of an item lies.
struct Place {
  std::uint64_t method = 0;  ///< 0: in the file. 1: in `idat`.
  std::uint64_t base = 0;
  std::uint64_t extents = 0;
  std::uint64_t offset = 0;  ///< Offset of the first extent.
  std::uint64_t bytes = 0;   ///< Bytes of the first extent; 0: to the end.
};

// Finds the record of an item.
Result<Place> find_place(BoxNumbers numbers, std::uint64_t item) {
  ISOCOST_ASSIGN(const std::uint64_t version, numbers.version());
  if (version > 2) return damaged_boxes();
  ISOCOST_ASSIGN(const std::uint64_t sizes, numbers.next(2));
  const std::size_t offset_bytes = (sizes >> 12) & 0xF;
  const std::size_t length_bytes = (sizes >> 8) & 0xF;
  const std::size_t base_bytes = (sizes >> 4) & 0xF;
  const std::size_t index_bytes = version == 0 ? 0 : sizes & 0xF;
  if (std::max({offset_bytes, length_bytes, base_bytes, index_bytes}) > 8) return damaged_boxes();
  const std::size_t id_bytes = version < 2 ? 2 : 4;
  ISOCOST_ASSIGN(const std::uint64_t count, numbers.next(id_bytes));
  std::uint64_t left = 8 * kMostItems;  // Records and extents that are read at most.
  for (std::uint64_t i = 0; i < count; ++i) {
    Place place;
    ISOCOST_ASSIGN(const std::uint64_t id, numbers.next(id_bytes));
    if (version > 0) {
      ISOCOST_ASSIGN(place.method, numbers.next(2));
    }
    place.method &= 0xF;
    ISOCOST_TRY(numbers.next(2));  // in which file
    ISOCOST_ASSIGN(place.base, numbers.next(base_bytes));
    ISOCOST_ASSIGN(place.extents, numbers.next(2));
    for (std::uint64_t k = 0; k < place.extents; ++k) {
      if (left-- == 0) return damaged_boxes();
      ISOCOST_TRY(numbers.next(index_bytes));
      ISOCOST_ASSIGN(const std::uint64_t offset, numbers.next(offset_bytes));
      ISOCOST_ASSIGN(const std::uint64_t bytes, numbers.next(length_bytes));
      if (k == 0) place.offset = offset;
      if (k == 0) place.bytes = bytes;
    }
    if (id == item) return place;
  }
  return damaged_boxes();
}

Result<std::int64_t> Items::data(std::uint64_t item, std::uint64_t least) const {
  if (!meta_.places) return damaged_boxes();
  ISOCOST_ASSIGN(const Place place, find_place(BoxNumbers(window_, *meta_.places), item));
  if (place.extents != 1 || (place.bytes != 0 && place.bytes < least)) return damaged_boxes();
  std::int64_t begin = 0;
  std::int64_t end = window_.size();
  if (place.method == 1) {
    if (!meta_.data) return damaged_boxes();
    begin = meta_.data->body;
    end = meta_.data->end;
  } else if (place.method != 0) {
    return unread_picture("made of parts of other items");
  }
  const auto room = static_cast<std::uint64_t>(end - begin);
  if (place.base > room || place.offset > room - place.base ||
      least > room - place.base - place.offset) {
    return damaged_boxes();
  }
  return begin + static_cast<std::int64_t>(place.base + place.offset);
}

Result<std::int32_t> as_side(std::uint64_t value) {
  if (value == 0 || value > INT32_MAX) return corrupt("its header says an impossible size");
  return static_cast<std::int32_t>(value);
}

// Returns what remains of a side of `whole` pixels by a `clap` property, as libheif cuts: the
// fractions are those of the aperture's length and of its middle's distance from the middle.
Result<std::int32_t> cropped_side(std::int32_t whole, std::uint64_t length_over,
                                  std::uint64_t length_under, std::uint64_t offset_over,
                                  std::uint64_t offset_under, bool rounds_down) {
  constexpr std::uint64_t kMostUnder = 4096;  // Products then fit 64 bits.
  if (length_under == 0 || offset_under == 0 || length_over == 0) return damaged_boxes();
  if (length_under > kMostUnder || offset_under > kMostUnder || length_over > INT32_MAX) {
    return unread_picture("cut to fractions of pixels");
  }
  const auto over = static_cast<std::int64_t>(length_over);
  const auto under = static_cast<std::int64_t>(length_under);
  const std::int64_t shift_over{static_cast<std::int32_t>(offset_over)};
  const auto shift_under = static_cast<std::int64_t>(offset_under);
  const std::int64_t first_over = 2 * shift_over * under +
                                  (std::int64_t{whole} - 1) * shift_under * under -
                                  (over - under) * shift_under;
  const std::int64_t first_under = 2 * shift_under * under;
  const std::int64_t first =
      rounds_down ? first_over / first_under : (first_over + first_under / 2) / first_under;
  const std::int64_t last_over = over - under + first * under;
  const std::int64_t last = (last_over + under / 2) / under;
  const std::int64_t left = std::max<std::int64_t>(first, 0);
  const std::int64_t right = std::min<std::int64_t>(last, std::int64_t{whole} - 1);
  if (left > right) return damaged_boxes();
  return static_cast<std::int32_t>(right - left + 1);
}

// Reads the properties of a picture into its layout.
class Describing {
 public:
  Describing(HeaderWindow& window, HeifLayout& layout) : window_(window), layout_(layout) {}

  // Takes the sides, and the steps where `with_steps` is set.
  Status take_sides(const std::vector<HeifBox>& properties, bool with_steps) {
    for (const HeifBox& property : properties) {
      if (property.type != "ispe") continue;
      BoxNumbers numbers(window_, property);
      ISOCOST_TRY(numbers.version());
      ISOCOST_ASSIGN(const std::uint64_t width, numbers.next(4));
      ISOCOST_ASSIGN(const std::uint64_t height, numbers.next(4));
      ISOCOST_ASSIGN(layout_.width, as_side(width));
      ISOCOST_ASSIGN(layout_.height, as_side(height));
      break;
    }
    if (layout_.width == 0) return damaged_boxes();
    shown_width_ = layout_.width;
    shown_height_ = layout_.height;
    for (const HeifBox& property : properties) {
      if (with_steps) ISOCOST_TRY(take_step(property));
    }
    return {};
  }

  // Takes the codec, and the depth of its samples.
  Status take_codec(const std::string& type, const std::vector<HeifBox>& properties) {
    const bool is_hevc = type == "hvc1";
    if (!is_hevc && type != "av01") return unread_picture("coded as '" + type + "'");
    layout_.codec = is_hevc ? HeifCodec::kHevc : HeifCodec::kAv1;
    for (const HeifBox& property : properties) {
      if (is_hevc && property.type == "hvcC") {
        constexpr std::int64_t kDepths = 17;
        if (property.end - property.body < kDepths + 2) return damaged_boxes();
        ISOCOST_ASSIGN(const ByteView bytes, window_.all(property.body + kDepths, 2, "a box"));
        layout_.is_deep = (bytes[0] & 7) != 0 || (bytes[1] & 7) != 0;
        return {};
      }
      if (!is_hevc && property.type == "av1C") {
        constexpr std::int64_t kDepth = 2;
        constexpr unsigned kIsHigh = 0x40;
        if (property.end - property.body < kDepth + 1) return damaged_boxes();
        ISOCOST_ASSIGN(const ByteView bytes, window_.all(property.body + kDepth, 1, "a box"));
        layout_.is_deep = (bytes[0] & kIsHigh) != 0;
        return {};
      }
    }
    return damaged_boxes();
  }

 private:
  Status take_step(const HeifBox& property) {
    HeifStep step;
    if (property.type == "irot" || property.type == "imir") {
      const bool is_turn = property.type == "irot";
      BoxNumbers numbers(window_, property);
      ISOCOST_ASSIGN(const std::uint64_t value, numbers.next(1));
      step.kind = is_turn ? HeifStep::Kind::kRotate : HeifStep::Kind::kMirror;
      step.value = static_cast<std::uint8_t>(value & (is_turn ? 3U : 1U));
      if (is_turn && step.value % 2 == 1) std::swap(shown_width_, shown_height_);
    } else if (property.type == "clap") {
      step.kind = HeifStep::Kind::kCrop;
      ISOCOST_TRY(take_crop(property, step));
    } else {
      return {};
    }
    if (layout_.steps == HeifLayout::kMostSteps) return damaged_boxes();
    layout_.step.at(layout_.steps++) = step;
    return {};
  }

  Status take_crop(const HeifBox& property, HeifStep& step) {
    BoxNumbers numbers(window_, property);
    std::array<std::uint64_t, 8> value{};
    for (std::uint64_t& one : value) {
      ISOCOST_ASSIGN(one, numbers.next(4));
    }
    ISOCOST_ASSIGN(step.width, cropped_side(shown_width_, value[0], value[1], value[4], value[5],
                                            /*rounds_down=*/true));
    ISOCOST_ASSIGN(step.height, cropped_side(shown_height_, value[2], value[3], value[6], value[7],
                                             /*rounds_down=*/false));
    shown_width_ = step.width;
    shown_height_ = step.height;
    return {};
  }

  HeaderWindow& window_;
  HeifLayout& layout_;
  std::int32_t shown_width_ = 0;
  std::int32_t shown_height_ = 0;
};

struct Grid {
  std::int64_t cells = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
};

Result<Grid> read_grid(HeaderWindow& window, std::int64_t at) {
  constexpr std::size_t kHead = 4;
  ISOCOST_ASSIGN(const ByteView bytes, window.all(at, kHead + 4, "a grid of pictures"));
  const bool is_wide = (bytes[1] & 1) != 0;
  const std::size_t side_bytes = is_wide ? 4 : 2;
  Grid grid;
  grid.cells = (std::int64_t{bytes[2]} + 1) * (std::int64_t{bytes[3]} + 1);
  ISOCOST_ASSIGN(const ByteView whole,
                 window.all(at, kHead + 2 * side_bytes, "a grid of pictures"));
  ISOCOST_ASSIGN(grid.width, as_side(big_endian(whole, kHead, side_bytes)));
  ISOCOST_ASSIGN(grid.height, as_side(big_endian(whole, kHead + side_bytes, side_bytes)));
  return grid;
}

// Reads a picture that is put together of others, all of one size.
Status read_cells(HeaderWindow& window, const Items& items, std::uint64_t item,
                  HeifLayout& layout) {
  constexpr std::uint64_t kLeastGrid = 8;
  ISOCOST_ASSIGN(const std::int64_t at, items.data(item, kLeastGrid));
  ISOCOST_ASSIGN(const Grid grid, read_grid(window, at));
  if (grid.width != layout.width || grid.height != layout.height) return damaged_boxes();
  ISOCOST_ASSIGN(const std::vector<std::uint64_t> cells, items.cells(item));
  if (static_cast<std::int64_t>(cells.size()) != grid.cells) return damaged_boxes();
  ISOCOST_ASSIGN(const std::string type, items.type(cells.front()));
  ISOCOST_ASSIGN(const std::vector<HeifBox> properties, items.properties(cells.front()));
  HeifLayout cell;
  Describing describing(window, cell);
  ISOCOST_TRY(describing.take_sides(properties, /*with_steps=*/false));
  ISOCOST_TRY(describing.take_codec(type, properties));
  layout.codec = cell.codec;
  layout.is_deep = cell.is_deep;
  // Cells beyond the picture's sides are refused by decoders, so that more than this is damage.
  const std::int64_t area = std::int64_t{cell.width} * cell.height;
  if (area > (std::int64_t{1} << 40)) return damaged_boxes();
  layout.coded_pixels = area * grid.cells;
  layout.is_grid = true;
  return {};
}

}  // namespace

Result<HeifLayout> read_heif_layout(HeaderWindow& window) {
  Items items(window);
  ISOCOST_TRY(items.open());
  ISOCOST_ASSIGN(const std::uint64_t primary, items.primary());
  ISOCOST_ASSIGN(const std::string type, items.type(primary));
  ISOCOST_ASSIGN(const std::vector<HeifBox> properties, items.properties(primary));
  HeifLayout layout;
  Describing describing(window, layout);
  ISOCOST_TRY(describing.take_sides(properties, /*with_steps=*/true));
  if (type == "grid") {
    ISOCOST_TRY(read_cells(window, items, primary, layout));
    return layout;
  }
  ISOCOST_TRY(describing.take_codec(type, properties));
  layout.coded_pixels = std::int64_t{layout.width} * layout.height;
  return layout;
}

}  // namespace isocost
