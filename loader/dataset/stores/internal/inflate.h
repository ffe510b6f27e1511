#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "base/byte_source.h"
#include "base/file_descriptor.h"
#include "base/result.h"

namespace isocost {

/// The inflated bytes of a gzip file, in a temporary file that is already unlinked.
struct Inflated {
  FileDescriptor file;
  std::int64_t bytes = 0;
  std::string problem;  ///< Reason why the stream ends early, and what to do; empty: it does not.
};

/// Inflates all members of a gzip source into a file in $TMPDIR, else /var/tmp. `name` is for
/// messages. Leaves nothing behind on failure. Errors: kIo (temporary file), kResourceExhausted
/// (more than `max_bytes`), kCancelled.
Result<Inflated> inflate_to_temporary(const ByteSource& source, const std::string& name,
                                      std::int64_t max_bytes, const std::stop_token& stop = {});

}  // namespace isocost
