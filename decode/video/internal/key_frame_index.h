#pragma once

#include <cstdint>

#include "decode/bytes/ffmpeg_input.h"

struct AVIndexEntry;
struct AVPacket;
struct AVStream;

namespace isocost {

/// The key frames that a container's index lists. Times are ticks of the stream, as the index
/// counts them. Single-thread; the input must outlive it.
class KeyFrameIndex {
 public:
  /// Whether seeking may find key frames that the index does not have yet. Matroska's index is
  /// read, or made from the clusters, only when somebody seeks. Containers of streams have none,
  /// and what libavformat makes in its place does not mark key frames.
  enum class Extent { kGrows, kWhole, kNone };

  explicit KeyFrameIndex(const FfmpegInput& input);

  Extent extent() const { return extent_; }
  /// kGrows becomes kWhole: looking for more key frames led nowhere.
  void note_whole() { extent_ = Extent::kWhole; }

  /// Takes the time from decoding to showing a key frame from the first packet of the video.
  void note_first(const AVPacket& packet);
  /// Returns the time that note_first took, if the index was whole from the beginning.
  std::int64_t reorder() const { return reorder_; }

  /// Returns the last key frame at or before a time; nullptr if there is none.
  const AVIndexEntry* at_or_before(std::int64_t ticks) const;
  /// Returns the key frame that comes `count` before the one at a time, or the first one.
  std::int64_t before(std::int64_t ticks, int count) const;
  bool has_earlier(std::int64_t ticks) const { return at_or_before(ticks - 1) != nullptr; }

  /// Whether seeking may find key frames after this one, which may be nullptr.
  bool may_grow_behind(const AVIndexEntry* entry) const;

 private:
  AVStream* stream_;
  Extent extent_;
  std::int64_t reorder_ = 0;
};

}  // namespace isocost
