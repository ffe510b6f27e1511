#pragma once

#include <cstdint>

namespace isocost::test {

/// Measures the most memory that this process has allocated from malloc at a time, since the object
/// was made, beyond what it had then. Counts every library's allocations, on all threads, as the
/// sizes that malloc gives. One at a time. Under sanitizers, whose malloc is another, it measures
/// nothing.
class HeapPeak {
 public:
  HeapPeak();
  std::int64_t bytes() const;

 private:
  std::int64_t begun_;
};

}  // namespace isocost::test
