#pragma once

#include <cstddef>

namespace isocost {

/// Writes a result from its beginning to its end, past the caches if that is faster: to write it
/// there would first read what it replaces, and evict what is needed. Not thread-safe.
class WrittenOnce {
 public:
  /// Returns whether a result of `bytes` bytes is written faster past the caches: if it is larger
  /// than a core's caches, on processors that were measured.
  static bool pays_past_caches(std::size_t bytes);

  explicit WrittenOnce(bool past_caches) : past_caches_(past_caches) {}
  WrittenOnce(const WrittenOnce&) = delete;
  WrittenOnce& operator=(const WrittenOnce&) = delete;
  /// Makes what was written visible to other threads, as writes to the caches are.
  ~WrittenOnce();

  /// Copies `values` floats to a place of the result, which is aligned as a float.
  void write(const float* from, std::size_t values, float* to) const;

 private:
  bool past_caches_;
};

}  // namespace isocost
