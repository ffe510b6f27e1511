#include "decode/probe.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "base/utf8.h"
#include "decode/audio/audio.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/sample_json.h"
#include "decode/bytes/sniff.h"
#include "decode/image/image_headers.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"
#include "decode/video/video.h"

namespace isocost {
namespace {

Status check_bytes(std::int64_t size, std::int64_t most) {
  if (size <= most) return {};
  return Error(ErrorCode::kResourceExhausted,
               std::to_string(size) + " bytes are over the limit of " + std::to_string(most));
}

PartShape text_shape(MediaFormat format, std::int64_t encoded_bytes, std::int64_t text_bytes) {
  PartShape shape;
  shape.modality = Modality::kText;
  shape.format = format;
  shape.encoded_bytes = encoded_bytes;
  shape.text_bytes = text_bytes;
  return shape;
}

/// Reads at most the first 4 KiB; later bytes are checked when they are decoded.
Result<PartShape> probe_text(HeaderWindow& window, std::int64_t max_bytes) {
  ISOCOST_TRY(check_bytes(window.size(), max_bytes));
  ISOCOST_ASSIGN(const ByteView head, window.some(0, HeaderWindow::kBytes));
  const std::size_t valid = valid_utf8_prefix(head);
  constexpr std::size_t kLongest = 4;  // the window may cut a character
  const bool whole = static_cast<std::int64_t>(head.size()) == window.size();
  if (valid < head.size() && (whole || head.size() - valid >= kLongest)) {
    ISOCOST_TRY(check_is_text(head, MediaFormat::kUtf8));
    return corrupt("is not UTF-8 at byte " + std::to_string(valid));
  }
  // Zero bytes are UTF-8, but UTF-16 has one in each Latin character.
  if (std::ranges::find(head, 0) != head.end()) {
    ISOCOST_TRY(check_is_text(head, MediaFormat::kUtf8));
  }
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const std::size_t mark = text.size() - without_byte_order_mark(text).size();
  return text_shape(MediaFormat::kUtf8, window.size(),
                    window.size() - static_cast<std::int64_t>(mark));
}

Result<PartShape> probe_json(const ByteSource& source, std::int64_t max_bytes,
                             std::string_view weight_key) {
  ISOCOST_TRY(check_bytes(source.size(), max_bytes));
  ISOCOST_ASSIGN(const std::vector<std::uint8_t> bytes,
                 read_some(source, 0, static_cast<std::size_t>(source.size())));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto json = parse_sample_json(text, weight_key);
  if (!json.has_value()) {
    ISOCOST_TRY(check_is_text(bytes, MediaFormat::kJson));
    return std::move(json).error();
  }
  return text_shape(MediaFormat::kJson, source.size(),
                    static_cast<std::int64_t>(json->text.size()));
}

/// Reads a container of videos. One without pictures is a sound, whatever its name says.
Result<PartShape> probe_container(const ByteSource& source, MediaFormat format,
                                  const ProbeLimits& limits) {
  Result<PartShape> video = probe_video(source, format, limits.max_pixels);
  const std::optional<MediaFormat> sound = sound_only(format);
  if (video || !sound || video.error().code() != ErrorCode::kNotFound) return video;
  return probe_audio(source, *sound);
}

/// Returns the format of the bytes after ID3 tags, which stand before MP3 as a rule. What else has
/// no reader that skips them is refused.
Result<MediaFormat> format_behind_id3(ByteView stream) {
  const MediaFormat found = sniff(stream).value_or(MediaFormat::kMp3);
  switch (found) {
    case MediaFormat::kMp3:
    case MediaFormat::kFlac:
    case MediaFormat::kAdts:
    case MediaFormat::kWav:
      return found;
    default:
      return corrupt("is " + std::string(format_name(found)) +
                     " behind an ID3 tag, which is not read: remove the tag");
  }
}

Result<PartShape> probe_media(const ByteSource& source, HeaderWindow& window,
                              std::string_view part_name, const ProbeLimits& limits) {
  constexpr std::size_t kMarks = 512;
  ISOCOST_ASSIGN(const ByteView head, window.some(0, kMarks));
  // A wrong name is no fault of the picture: programs name a GIF or WebP .jpg.
  ISOCOST_ASSIGN(MediaFormat format,
                 format_by_content(head, format_from_extension(part_name), part_name));
  if (has_tag(head, 0, "ID3")) {
    ISOCOST_ASSIGN(const std::int64_t start, skip_id3v2(source));
    ISOCOST_ASSIGN(const ByteView stream, window.some(start, kMarks));
    ISOCOST_ASSIGN(format, format_behind_id3(stream));
  }
  switch (modality_of(format)) {
    case Modality::kImage:
      return read_image_header(window, format, limits.max_pixels);
    case Modality::kAudio:
      return probe_audio(source, format);
    default:
      return probe_container(source, format, limits);
  }
}

}  // namespace

Result<PartShape> probe(const ByteSource& source, std::string_view part_name,
                        const ProbeLimits& limits, std::string_view weight_key) {
  if (!modality_from_name(part_name)) {
    return Error(ErrorCode::kUnsupported,
                 std::string(part_name).append(": files of this extension are not read"));
  }
  const auto format = format_from_extension(part_name);
  // An empty text is the transcript of a sound that contains no speech.
  if (source.size() == 0 && format == MediaFormat::kUtf8) return text_shape(*format, 0, 0);
  if (source.size() <= 0) return corrupt("it has zero bytes");
  if (format == MediaFormat::kJson) return probe_json(source, limits.max_json_bytes, weight_key);
  HeaderWindow window(source);
  if (format == MediaFormat::kUtf8) return probe_text(window, limits.max_text_bytes);
  return probe_media(source, window, part_name, limits);
}

}  // namespace isocost
