#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>

#include "base/byte_source.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace isocost {

/// The decompressed bytes of a file, in a temporary file that is already unlinked.
struct Decompressed {
  FileDescriptor file;
  std::int64_t bytes = 0;
  std::string problem;  ///< Reason why the stream ends early, and what to do; empty: it does not.
  std::string unread;   ///< The bytes after the end of the stream; empty: only zeros.
};

/// Decompresses all frames of a file for which is_compressed is true into one in $TMPDIR, else
/// /var/tmp. `name` is for messages. Leaves nothing behind on failure. Errors: kIo (temporary
/// file), kResourceExhausted (more than `max_bytes`), kCancelled.
Result<Decompressed> decompress_to_temporary(const ByteSource& source, const std::string& name,
                                             std::int64_t max_bytes,
                                             const std::stop_token& stop = {});

}  // namespace isocost
