#pragma once

#include "base/byte_source.h"
#include "base/result.h"

namespace isocost {

/// Checks that the fragments of an MP4 (ISO/IEC 14496-12, 8.8) do not claim more samples than the
/// source has bytes: a run of samples that are alike takes no bytes itself, and the demuxer would
/// allocate for each of them. The outermost boxes must have been checked. Errors: kCorrupt, kIo.
Status check_fragments(const ByteSource& source);

}  // namespace isocost
