#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/byte_range.h"
#include "loader/dataset/stores/remote/object_store.h"

namespace isocost {

// An entry of the cache is a sparse file with the bytes of one version of an object:
//
//   header   its object's name and stamp, with a CRC; a multiple of 4 KiB
//   bytes    as many as the object has, in their places, with holes where none are held; up to a
//            multiple of 4 KiB
//   records  one for each range that is held, appended when its bytes are written, each with a CRC
//            of its own and one of the bytes
//
// Numbers are as the machine has them, since the disk is its own. A record that was cut off, by the
// end of a process, is passed over byte by byte.

/// An object of one version.
struct CachedObject {
  std::string name;  ///< Address without secrets.
  ObjectStamp stamp;
  bool operator==(const CachedObject&) const = default;
};

/// Returns the name of an object's entry, the same for the same object and stamp.
std::string entry_name(const CachedObject& object);
/// Returns whether a file's name is that of an entry, or of one that is being made.
bool is_entry_name(std::string_view name);
bool is_unfinished_name(std::string_view name);

/// Longest header.
inline constexpr std::size_t kMostHeaderBytes = std::size_t{64} << 10;

/// Returns a header; nothing for an object whose name is too long.
std::optional<std::string> write_header(const CachedObject& object);

struct EntryHeader {
  CachedObject object;
  std::int64_t bytes = 0;  ///< Size of the header, and so the place of the object's first byte.
  std::int64_t records_begin() const;
};
/// Reads a header from the begin of a file. Returns nothing if it is none.
std::optional<EntryHeader> read_header(std::string_view begin);

/// A range that an entry holds.
struct RangeRecord {
  ByteRange range;
  std::uint32_t crc = 0;
};
inline constexpr std::size_t kRecordBytes = 32;

std::string write_record(const RangeRecord& record);
/// Reads a record from the begin of a text. Returns nothing if there is none.
std::optional<RangeRecord> read_record(std::string_view text, std::int64_t object_bytes);

std::uint32_t crc_of(std::string_view bytes);

}  // namespace isocost
