#include "decode/video/internal/key_frame_index.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "decode/bytes/ffmpeg_input.h"

extern "C" {
#include <libavcodec/packet.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
}

namespace isocost {

namespace {

KeyFrameIndex::Extent extent_of(std::string_view demuxer) {
  if (demuxer == "matroska,webm") return KeyFrameIndex::Extent::kGrows;
  const bool is_whole = demuxer == "avi" || demuxer.starts_with("mov,");
  return is_whole ? KeyFrameIndex::Extent::kWhole : KeyFrameIndex::Extent::kNone;
}

}  // namespace

KeyFrameIndex::KeyFrameIndex(const FfmpegInput& input)
    : stream_(input.stream()), extent_(extent_of(input.context()->iformat->name)) {}

void KeyFrameIndex::note_first(const AVPacket& packet) {
  if (extent_ == Extent::kGrows) return;
  if (packet.pts == AV_NOPTS_VALUE || packet.dts == AV_NOPTS_VALUE) return;
  reorder_ = std::clamp<std::int64_t>(packet.pts - packet.dts, 0, INT32_MAX);
}

const AVIndexEntry* KeyFrameIndex::at_or_before(std::int64_t ticks) const {
  if (extent_ == Extent::kNone) return nullptr;
  return avformat_index_get_entry_from_timestamp(stream_, ticks, AVSEEK_FLAG_BACKWARD);
}

std::int64_t KeyFrameIndex::before(std::int64_t ticks, int count) const {
  for (int i = 0; i < count; ++i) {
    const AVIndexEntry* earlier = at_or_before(ticks - 1);
    if (earlier == nullptr) break;
    ticks = earlier->timestamp;
  }
  return ticks;
}

bool KeyFrameIndex::may_grow_behind(const AVIndexEntry* entry) const {
  if (extent_ != Extent::kGrows) return false;
  const int entries = avformat_index_get_entries_count(stream_);
  return entry == nullptr || entry == avformat_index_get_entry(stream_, entries - 1);
}

}  // namespace isocost
