#pragma once

#include <cstdint>

namespace isocost {

/// The form of the records of a file (docs/make_shards.md). Indexes hold these numbers.
enum class RecordForm : std::uint8_t {
  kUnknown = 0,  ///< No record has had the keys of a form so far.
  kManifest = 1,
  kConversation = 2,
  kInstruction = 3,
  kCaption = 4,
};
inline constexpr RecordForm kLastRecordForm = RecordForm::kCaption;

/// A record's place in its plain file.
struct RecordBytes {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Adjacent records of a file. Offsets count bytes of the plain file, after decompression.
struct RecordRange {
  std::int64_t begin = 0;    ///< Behind the separator of the record before the first one.
  std::int64_t end = 0;      ///< The begin of the next range; of the last one, the file's size.
  std::uint64_t line = 1;    ///< Line of the first byte.
  std::uint64_t number = 0;  ///< Elements of the array before the first one.
  RecordForm form = RecordForm::kUnknown;  ///< Form of the file by the records before the range.
  bool is_array = false;  ///< Whether the records are elements of an array, and not lines.
  bool is_last = true;    ///< Whether the range ends the file.
};

}  // namespace isocost
