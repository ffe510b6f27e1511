#include "transport/wire/internal/sample_entry.h"

#include <cstdint>
#include <span>
#include <string_view>

#include "base/sample_part.h"
#include "base/utf8.h"

namespace isocost {
namespace {

constexpr double kMostTimestampSeconds = 1e12;                     // longer than any media
constexpr std::size_t kPartBytes = 1 + 4 * sizeof(std::uint32_t);  // without timestamps
constexpr std::size_t kMaxPartsBytes = kMaxSampleDescriptionBytes;

std::size_t encoded_bytes(std::span<const SamplePart> parts) {
  std::size_t bytes = kPartBytes * parts.size();
  for (const SamplePart& part : parts) bytes += sizeof(double) * part.timestamps_s.size();
  return bytes;
}

template <typename Length>
void put_text_if_room(ByteWriter& out, std::string_view text, std::size_t most,
                      DescriptionRoom& room) {
  out.put_text<Length>(room.take(text.size(), most) ? text : std::string_view());
}

void put_parts(ByteWriter& out, std::span<const SamplePart> parts, DescriptionRoom& room) {
  const bool fits =
      parts.size() <= kMaxSampleParts && room.take(encoded_bytes(parts), kMaxPartsBytes);
  if (!fits) parts = {};
  out.put(static_cast<std::uint16_t>(parts.size()));
  for (const SamplePart& part : parts) {
    out.put(static_cast<std::uint8_t>(part.modality));
    out.put(part.rows);
    out.put(part.columns);
    out.put(part.frames);
    out.put(static_cast<std::uint32_t>(part.timestamps_s.size()));
    for (const double seconds : part.timestamps_s) out.put(seconds);
  }
}

SamplePart get_part(ByteReader& in) {
  SamplePart part;
  const auto modality = in.get<std::uint8_t>();
  if (modality >= kModalities) in.fail();
  part.modality = static_cast<Modality>(modality);
  part.rows = in.get<std::uint32_t>();
  part.columns = in.get<std::uint32_t>();
  part.frames = in.get<std::uint32_t>();
  const auto timestamps = in.get<std::uint32_t>();
  // Trainers pair frames with their times, so the counts must agree.
  if (timestamps != 0 && timestamps != part.frames) in.fail();
  for (std::size_t i = 0; in.ok() && i < timestamps; ++i) {
    const auto seconds = in.get<double>();
    if (!(seconds >= 0 && seconds <= kMostTimestampSeconds)) in.fail();  // NaN fails, too
    part.timestamps_s.push_back(seconds);
  }
  return part;
}

}  // namespace

void put_sample(ByteWriter& out, const SampleEntry& sample, DescriptionRoom& room) {
  out.put(sample.id);
  out.put(sample.weight);
  out.put(sample.label_tokens);
  put_text_if_room<std::uint16_t>(out, sample.key, kMaxSampleKeyBytes, room);
  put_parts(out, sample.parts, room);
  put_text_if_room<std::uint32_t>(out, sample.json, kMaxSampleJsonBytes, room);
}

SampleEntry get_sample(ByteReader& in, DescriptionRoom& room) {
  SampleEntry sample;
  sample.id = in.get<std::uint64_t>();
  sample.weight = in.get<float>();
  if (!(sample.weight >= 0 && sample.weight <= 3e38F)) in.fail();
  sample.label_tokens = in.get<std::uint32_t>();
  // Keys are printed, and control characters would reach a terminal.
  sample.key = printable_utf8(in.get_text<std::uint16_t>(kMaxSampleKeyBytes));
  if (!room.take(sample.key.size(), kMaxSampleKeyBytes)) in.fail();
  const auto parts = in.get<std::uint16_t>();
  if (parts > kMaxSampleParts) in.fail();
  for (std::size_t i = 0; in.ok() && i < parts; ++i) sample.parts.push_back(get_part(in));
  if (!room.take(encoded_bytes(sample.parts), kMaxPartsBytes)) in.fail();
  sample.json = in.get_text<std::uint32_t>(kMaxSampleJsonBytes);
  if (!is_utf8(sample.json) || !room.take(sample.json.size(), kMaxSampleJsonBytes)) in.fail();
  return sample;
}

}  // namespace isocost
