#include "decode/bytes/sniff.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/media_formats.h"

namespace isocost {
namespace {

std::optional<MediaFormat> sniff_riff(ByteView head) {
  constexpr std::array<std::string_view, 4> kMarks = {"RIFF", "RF64", "BW64", "RIFX"};
  const bool is_riff =
      std::ranges::any_of(kMarks, [&](auto mark) { return has_tag(head, 0, mark); });
  if (!is_riff) return std::nullopt;
  if (has_tag(head, 8, "WEBP")) return MediaFormat::kWebp;
  if (has_tag(head, 8, "WAVE")) return MediaFormat::kWav;
  if (has_tag(head, 8, "AVI ")) return MediaFormat::kAvi;
  return std::nullopt;
}

/// Returns whether a BMP begins here. "BM" is not sufficient, since many texts begin with it.
bool is_bmp(ByteView head) {
  if (!has_tag(head, 0, "BM") || head.size() < 18) return false;
  const std::uint64_t header_bytes = little_endian(head, 14, 4);
  return header_bytes == 12 || (header_bytes >= 40 && header_bytes <= 124);
}

/// Returns the picture format of ISO base media files that a brand represents; nothing for films.
std::optional<MediaFormat> picture_brand(ByteView head, std::size_t at) {
  constexpr auto kBrands = std::to_array<std::pair<std::string_view, MediaFormat>>({
      {"avif", MediaFormat::kAvif},
      {"avis", MediaFormat::kAvif},
      {"heic", MediaFormat::kHeic},
      {"heix", MediaFormat::kHeic},
      {"heim", MediaFormat::kHeic},
      {"heis", MediaFormat::kHeic},
      {"hevc", MediaFormat::kHeic},
      {"hevx", MediaFormat::kHeic},
  });
  const auto brand = std::ranges::find_if(
      kBrands, [&](const auto& entry) { return has_tag(head, at, entry.first); });
  return brand == kBrands.end() ? std::nullopt : std::optional(brand->second);
}

/// Returns the picture format of an ISO base media file; nothing for films. The brands mif1 and
/// msf1 leave the codec open. The compatible brands after them name it.
std::optional<MediaFormat> sniff_picture_file(ByteView head) {
  constexpr std::size_t kMajor = 8;
  constexpr std::size_t kCompatible = 16;
  if (!has_tag(head, 4, "ftyp")) return std::nullopt;
  const bool is_open = has_tag(head, kMajor, "mif1") || has_tag(head, kMajor, "msf1");
  if (!is_open) return picture_brand(head, kMajor);
  const std::uint64_t end = std::min<std::uint64_t>(big_endian(head, 0, 4), head.size());
  for (std::size_t at = kCompatible; at + 4 <= end; at += 4) {
    if (const auto found = picture_brand(head, at)) return found;
  }
  return MediaFormat::kHeic;
}

bool is_tiff(ByteView head) {
  constexpr auto kMarks =
      std::to_array<std::string_view>({{"II*\0", 4}, {"MM\0*", 4}, {"II+\0", 4}, {"MM\0+", 4}});
  return std::ranges::any_of(kMarks, [&](std::string_view mark) { return has_tag(head, 0, mark); });
}

bool is_mp4(ByteView head) {
  constexpr std::array<std::string_view, 7> kFirst = {"ftyp", "moov", "mdat", "wide",
                                                      "free", "skip", "styp"};
  return std::any_of(kFirst.begin(), kFirst.end(),
                     [&](std::string_view type) { return has_tag(head, 4, type); });
}

/// Returns whether a frame header of MPEG audio, layer II or III, without forbidden values, begins
/// here.
bool is_mpeg_audio(ByteView head) {
  if (head.size() < 4 || head[0] != 0xFF || (head[1] & 0xE0) != 0xE0) return false;
  const bool version = (head[1] & 0x18) != 0x08;
  const bool has_layer2 = (head[1] & 0x18) != 0;  // MPEG-2.5 has no other layer than III
  const bool layer = (head[1] & 0x06) == 0x02 || (has_layer2 && (head[1] & 0x06) == 0x04);
  const bool rates = (head[2] & 0xF0) != 0xF0 && (head[2] & 0x0C) != 0x0C;
  return version && layer && rates;
}

/// Returns whether every second byte is zero, as in UTF-16 without a byte order mark.
bool is_utf16(ByteView head) {
  const std::size_t size = std::min<std::size_t>(head.size(), 64) / 2 * 2;
  std::array<std::size_t, 2> zeros{};
  for (std::size_t i = 0; i < size; ++i) zeros.at(i % 2) += head[i] == 0 ? 1 : 0;
  return size >= 4 && std::max(zeros[0], zeros[1]) == size / 2 && std::min(zeros[0], zeros[1]) == 0;
}

/// Returns whether a header of ADTS (ISO/IEC 14496-3, 1.A.3), without forbidden values, begins
/// here.
bool is_adts(ByteView head) {
  constexpr std::size_t kRates = 13;
  if (head.size() < 7 || head[0] != 0xFF || (head[1] & 0xF6) != 0xF0) return false;
  const std::uint64_t frame_bytes = (big_endian(head, 3, 3) >> 5) & 0x1FFF;
  return ((head[2] >> 2) & 0xF) < kRates && frame_bytes >= 7;
}

/// Returns whether the same frame header of MPEG audio stands here and a packet of discs later.
/// Frames of 64 kbit/s at 48 kHz have that length; the times of packets differ in these bytes.
bool repeats_mpeg_audio(ByteView head, std::size_t packet) {
  constexpr unsigned kPadding = 0x02;
  if (!is_mpeg_audio(head) || head.size() < packet + 4) return false;
  const ByteView next = head.subspan(packet);
  return next[0] == head[0] && next[1] == head[1] && ((next[2] ^ head[2]) & ~kPadding) == 0;
}

/// Returns whether packets of MPEG-TS begin here: each with its mark, and on discs after a time.
/// Frames of other formats may have two such bytes by chance, so a third is read unless the bytes
/// end before it.
bool is_mpeg_ts(ByteView head) {
  constexpr std::uint8_t kMark = 0x47;
  constexpr std::size_t kPacket = 188;
  constexpr std::size_t kTimed = kPacket + 4;
  const auto repeats = [&](std::size_t first, std::size_t step) {
    const std::size_t second = first + step;
    const std::size_t third = second + step;
    return second < head.size() && head[first] == kMark && head[second] == kMark &&
           (third >= head.size() || head[third] == kMark);
  };
  return repeats(0, kPacket) || (repeats(4, kTimed) && !repeats_mpeg_audio(head, kTimed));
}

/// Returns whether a second stream begins where the first page of an Ogg file ends.
bool has_two_ogg_streams(ByteView head) {
  constexpr std::size_t kPageHeader = 27;
  if (head.size() < kPageHeader) return false;
  const std::size_t segments = head[kPageHeader - 1];
  if (head.size() < kPageHeader + segments) return false;
  std::size_t next = kPageHeader + segments;
  for (std::size_t i = 0; i < segments; ++i) next += head[kPageHeader + i];
  constexpr std::uint8_t kBegins = 0x02;
  return has_tag(head, next, "OggS") && next + 5 < head.size() && (head[next + 5] & kBegins) != 0;
}

/// Returns the format of an Ogg file by its first packet. Only the container's reader knows what
/// several streams, or the codecs of other kinds, are.
MediaFormat sniff_ogg(ByteView head) {
  constexpr std::size_t kPacket = 28;
  const bool is_opus = has_tag(head, kPacket, "OpusHead");
  const bool is_vorbis = has_tag(head, kPacket, "\x01vorbis");
  if ((!is_opus && !is_vorbis) || has_two_ogg_streams(head)) return MediaFormat::kOgv;
  return is_opus ? MediaFormat::kOpus : MediaFormat::kOggVorbis;
}

/// Returns the format of sounds and videos that only FFmpeg reads.
std::optional<MediaFormat> sniff_other_container(ByteView head) {
  constexpr std::string_view kAsf = "\x30\x26\xB2\x75\x8E\x66\xCF\x11";
  if (has_tag(head, 0, kAsf)) return MediaFormat::kWmv;
  if (has_tag(head, 0, "FLV\x01")) return MediaFormat::kFlv;
  if (has_tag(head, 0, "caff")) return MediaFormat::kCaf;
  if (has_tag(head, 0, "FORM") && (has_tag(head, 8, "AIFF") || has_tag(head, 8, "AIFC"))) {
    return MediaFormat::kAiff;
  }
  if (has_tag(head, 0, std::string_view("\0\0\x01\xBA", 4))) return MediaFormat::kMpegPs;
  if (is_mpeg_ts(head)) return MediaFormat::kMpegTs;
  if (is_adts(head)) return MediaFormat::kAdts;
  return std::nullopt;
}

/// Returns the name of a format that is not read; nothing for bytes of no known one.
std::optional<std::string_view> foreign_format(ByteView head) {
  constexpr std::array kMarks = std::to_array<std::pair<std::string_view, std::string_view>>({
      {std::string_view("\0\0\0\x0CJXL ", 8), "JPEG XL"},
      {"\xFF\x0A", "JPEG XL"},
      {std::string_view("\0\0\0\x0CjP  ", 8), "JPEG 2000"},
      {"\xFF\x4F\xFF\x51", "JPEG 2000"},
      {std::string_view("\xFF\xFE\0\0", 4), "UTF-32 text"},
      {"\xFF\xFE", "UTF-16 text"},
      {"\xFE\xFF", "UTF-16 text"},
      {"%PDF-", "PDF"},
      {"<!DOCTYPE", "a web page"},
      {"<!doctype", "a web page"},
      {"<html", "a web page"},
      {"<?xml", "XML"},
      {"<svg", "SVG"},
      {"\x1F\x8B", "gzip"},
      {"PK\x03\x04", "a zip archive"},
      {".snd", "AU"},
      {"riff\x2E\x91\xCF\x11", "Wave64"},
      {"wvpk", "WavPack"},
      {"TTA1", "TTA"},
      {"MAC ", "Monkey's Audio"},
      {"#!AMR", "AMR"},
      {"\x0B\x77", "AC-3"},
      {"Creative Voice File", "VOC"},
      {".RMF", "RealMedia"},
      {"YUV4MPEG2", "YUV4MPEG"},
      {std::string_view("\0\0\x01\xB3", 4), "MPEG video without a container"},
      {std::string_view("\0\0\0\x01\x67", 5), "H.264 without a container"},
      {std::string_view("\0\0\0\x01\x09", 5), "H.264 without a container"},
      {std::string_view("\0\0\0\x01\x40\x01", 6), "HEVC without a container"},
  });
  if (has_tag(head, 4, "ftypjp2 ")) return "JPEG 2000";
  const auto mark = std::ranges::find_if(
      kMarks, [&](const auto& entry) { return has_tag(head, 0, entry.first); });
  return mark == kMarks.end() ? std::nullopt : std::optional(mark->second);
}

}  // namespace

std::optional<MediaFormat> sniff(ByteView head) {
  constexpr std::string_view kPng = "\x89PNG\r\n\x1A\n";
  if (head.size() >= 3 && big_endian(head, 0, 3) == 0xFFD8FF) return MediaFormat::kJpeg;
  if (has_tag(head, 0, kPng)) return MediaFormat::kPng;
  if (has_tag(head, 0, "GIF87a") || has_tag(head, 0, "GIF89a")) return MediaFormat::kGif;
  if (has_tag(head, 0, "fLaC")) return MediaFormat::kFlac;
  if (has_tag(head, 0, "OggS")) return sniff_ogg(head);
  if (has_tag(head, 0, "\x1A\x45\xDF\xA3")) return MediaFormat::kMatroska;
  if (const auto riff = sniff_riff(head)) return riff;
  if (is_bmp(head)) return MediaFormat::kBmp;
  if (is_tiff(head)) return MediaFormat::kTiff;
  if (const auto picture = sniff_picture_file(head)) return picture;
  if (is_mp4(head) && !has_tag(head, 4, "ftypjp2 ")) return MediaFormat::kMp4;
  if (const auto other = sniff_other_container(head)) return other;
  if (has_tag(head, 0, "ID3") || is_mpeg_audio(head)) return MediaFormat::kMp3;
  return std::nullopt;
}

Result<MediaFormat> format_by_content(ByteView head, std::optional<MediaFormat> claimed,
                                      std::string_view part_name) {
  if (const auto found = sniff(head)) return *found;
  // Most parts with the name of a read format are right: to leave all out would be no remedy.
  const std::string remedy = claimed
                                 ? ": convert it"
                                 : ": convert it, or leave such parts out with --ignore-parts " +
                                       part_extension(part_name);
  const std::string name(claimed ? format_name(*claimed) : "");
  if (const auto foreign = foreign_format(head)) {
    const std::string is = "is " + std::string(*foreign);
    return corrupt(
        (claimed ? is + ", not " + name + " as its name says, and is" : is + ", which is") +
        " not read" + remedy);
  }
  // An MP3 may begin with junk, which its own reader handles.
  if (claimed == MediaFormat::kMp3) return *claimed;
  if (!claimed) return corrupt("begins as no format that is read" + remedy);
  return corrupt("is no " + name + ": it does not begin as one, or is cut off");
}

Status check_is_text(ByteView head, MediaFormat claimed) {
  // Words such as "free" and "ID3" are marks of media, too, where a byte that is not text follows.
  const auto is_binary = [](std::uint8_t byte) {
    return byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r';
  };
  const ByteView first = head.first(std::min<std::size_t>(head.size(), 16));
  if (first.empty() || (first[0] < 0x80 && std::ranges::none_of(first, is_binary))) return {};
  const auto found = sniff(head);
  auto name = found ? std::optional(format_name(*found)) : foreign_format(head);
  if (!name && is_utf16(head)) name = "UTF-16 text";
  if (!name) return {};
  return corrupt("is " + std::string(*name) + ", not " + std::string(format_name(claimed)) +
                 " as its name says");
}

}  // namespace isocost
