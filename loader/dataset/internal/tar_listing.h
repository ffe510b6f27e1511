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
  std::string name;  ///< UTF-8, a leading "./" removed; made printable where it is not UTF-8.
  std::int64_t offset = 0;  ///< Of its bytes in the archive.
  std::int64_t size = 0;
  std::string problem;  ///< Why it cannot be used; empty: it can.
};

/// Walks the headers of a plain tar archive (ustar, pax, GNU long names, base-256 sizes) through
/// libarchive. Bodies are jumped over, not read. Directories are left out. Single-thread; the
/// source must outlive it.
class TarListing {
 public:
  /// Errors: kInternal where libarchive cannot be set up. A broken archive is a `problem`.
  static Result<TarListing> open(const ByteSource& source);
  TarListing(TarListing&&) noexcept;
  TarListing& operator=(TarListing&&) noexcept;
  ~TarListing();

  /// The next member; nothing at the end, whether good or not.
  std::optional<TarMember> next();

  /// After the end: what is wrong with the archive as a whole, and what to do; empty: nothing.
  const std::string& problem() const;
  /// After the end: the archive broke off where more of the last member's sample may have stood.
  bool broke_off() const;

 private:
  struct State;
  explicit TarListing(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace isocost
