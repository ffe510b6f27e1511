#pragma once

#include <cstdint>
#include <string>

#include "base/byte_source.h"
#include "base/result.h"

namespace isocost {

/// The inflated bytes of a gzip file in a temporary file that has no name any more.
struct Inflated {
  int descriptor = -1;  ///< The receiver closes it.
  std::int64_t bytes = 0;
  std::string problem;  ///< Where the stream is cut off or damaged: where, and what to do.
};

/// Inflates all members of a gzip source into a file in $TMPDIR, else /var/tmp. `name` is for
/// messages. Errors: kIo (temporary file), kResourceExhausted (more than `max_bytes`); nothing is
/// left behind.
Result<Inflated> inflate_to_temporary(const ByteSource& source, const std::string& name,
                                      std::int64_t max_bytes);

}  // namespace isocost
