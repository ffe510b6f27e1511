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
  std::string name;         ///< Its bytes, a leading "./" removed. A name and no path to follow.
  std::int64_t offset = 0;  ///< Offset of its bytes in the archive.
  std::int64_t size = 0;
  std::string problem;  ///< Reason why it cannot be used; empty if it can.
};

/// How an archive ends.
struct TarEnd {
  /// Why it cannot be followed to its end, and what to do; empty: it can. The last sample may then
  /// lack members.
  std::string problem;
  /// Whether there is the mark (a block of zeros) that ends a tar file.
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
