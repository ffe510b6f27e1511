#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "decode/bytes/ffmpeg_input.h"

struct AVStream;

namespace isocost {

/// Returns the names of the decoders that libavformat may open, separated by commas: it looks into
/// packets of streams whose header lacks something.
const std::string& allowed_decoders();

/// Checks that we decode the stream's codec. Errors: kUnsupported naming the codec.
Status check_codec(const AVStream& stream);

/// Opens the decoder for a stream's codec, with one thread and strict error detection; it refuses
/// frames beyond `max_pixels`. Errors: kUnsupported (a codec that we do not decode, or that this
/// libavcodec lacks), kCorrupt.
Result<AvCodec> open_decoder(const AVStream& stream, std::int64_t max_pixels);

}  // namespace isocost
