#pragma once

#include <cstdint>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/source_slice.h"
#include "decode/shape/media_formats.h"

namespace isocost {

/// Values of an audio header. `frames` < 0: the header does not contain it.
struct AudioHeader {
  MediaFormat format = MediaFormat::kWav;
  std::int64_t sample_rate = 0;
  std::int64_t channels = 0;
  std::int64_t frames = -1;
};

/// The place of a size that a file states.
struct SizeField {
  std::int64_t at = 0;
  std::int64_t bytes = 0;
};

/// A WAV's header, and how many bytes of samples there are.
struct WavLayout {
  AudioHeader header;
  SizeField size_field;
  bool is_big_endian = false;
  bool holds_mp3 = false;  ///< The header's frames are then 0.
  std::int64_t stated_bytes = 0;
  std::int64_t data_bytes = 0;
};

/// Reads RIFF/WAVE, RIFX, RF64 and BW64: PCM of 8 to 32 bits, IEEE float, A-law and mu-law, plain
/// or extensible; MS and IMA ADPCM, GSM 6.10 and MP3. A stated size that means "unknown" (0
/// with samples after it, or within 4 KiB of 2 or 4 GiB; in RF64, 64 bits of ones), or that is up
/// to 1 KiB too large, means all bytes to the end. A size that is larger means a cut-off file.
Result<WavLayout> read_wav_layout(const ByteSource& source);
/// Reads the same after ID3 tags. MP3 within WAV has the format kMp3, whose reader passes over the
/// chunks before the first frame.
Result<AudioHeader> read_wav_header(const ByteSource& source);
/// Returns the source after the ID3 tags at its start. It must outlive the result.
Result<SourceSlice> without_id3v2(const ByteSource& source);

/// Reads the STREAMINFO block of a native FLAC stream.
Result<AudioHeader> read_flac_header(const ByteSource& source);

/// Checks that no other FLAC stream follows, whose samples would be lost. A decoder has read the
/// first one up to the offset `read_to`. Tags and other bytes may follow. Errors: kUnsupported,
/// kIo.
Status check_single_flac(const ByteSource& source, std::int64_t read_to);

/// Reads an Ogg file of Vorbis or Opus: a stream, or several chained one after another. The length
/// is the granule position of the last page, which must end where the source ends; of chained
/// streams, the sum. Reads the headers of all pages, since only they show whether there are
/// several. Errors: kUnsupported for chained streams of different codecs or sample rates.
Result<AudioHeader> read_ogg_header(const ByteSource& source);

/// A stream of an Ogg file.
struct OggLink {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// Checks the pages that the first `samples` samples need, one after the other, with their
/// checksums, because a decoder would silently leave out a broken page. Returns the streams that
/// have been seen; the last one reaches to the end of the source if it was not read to its end.
Result<std::vector<OggLink>> check_ogg_pages(const ByteSource& source, std::int64_t samples);

/// Reads MPEG audio, layer II or III: the Xing, Info or VBRI frame; without one, all frame headers
/// are read. Streams one after another count together. Errors: kUnsupported if their rates differ.
Result<AudioHeader> read_mp3_header(const ByteSource& source);

/// Reads a container that libavformat reads, or a format that only it reads: MP4, Matroska, AVI,
/// MPEG-TS, MPEG-PS, FLV, ASF, Ogg, ADTS, AIFF and CAF. Rate and channels are those of the decoder,
/// for which a few packets are decoded. If the container does not state the length, all packets
/// are read, and none more is decoded.
Result<AudioHeader> read_container_sound_header(const ByteSource& source, MediaFormat format);

}  // namespace isocost
