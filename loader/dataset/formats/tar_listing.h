#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/byte_source.h"
#include "base/result.h"

namespace isocost {

/// A regular file of a tar archive, or an entry that cannot be used.
struct TarMember {
  std::string name;         ///< The name's bytes, without a leading "./". Not a path to open.
  std::int64_t header = 0;  ///< Offset of its first header in the archive.
  std::int64_t offset = 0;  ///< Offset of its bytes in the archive.
  std::int64_t size = 0;
  std::string problem;  ///< Reason why it cannot be used; empty if it can.
};

/// How an archive ends.
struct TarEnd {
  /// Why the archive cannot be followed to its end, and what to do. Empty: it can. If it cannot,
  /// the last sample may lack members.
  std::string problem;
  /// Whether the file ends with the mark of a tar file (a block of zeros).
  bool has_mark = false;
  /// Bytes after the mark that are more than the padding of a tar file, such as a second archive;
  /// `unread_offset` is where they begin.
  std::int64_t unread_offset = 0;
  std::int64_t unread_bytes = 0;
};

/// Walks the headers of a plain tar archive (ustar, pax, GNU long names, base-256 sizes) through
/// libarchive. Skips bodies without reading them, and directories. Single-thread; the source must
/// outlive it.
class TarListing {
 public:
  /// Opens an archive. A broken one is a `problem`. Errors: kInternal if libarchive cannot be set
  /// up.
  static Result<TarListing> open(const ByteSource& source);
  TarListing(TarListing&&) noexcept;
  TarListing& operator=(TarListing&&) noexcept;
  ~TarListing();

  /// Returns the next member, or nothing at the end of the archive or at damage.
  std::optional<TarMember> next();

  /// Returns, after the last member, how the archive ends.
  const TarEnd& end() const;

 private:
  struct State;
  explicit TarListing(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace isocost
