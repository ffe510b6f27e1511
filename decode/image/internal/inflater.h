#pragma once

#include <libdeflate.h>

#include <memory>
#include <new>

namespace isocost {

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* one) const { libdeflate_free_decompressor(one); }
};
using Inflater = std::unique_ptr<libdeflate_decompressor, FreeDecompressor>;

/// Returns libdeflate's decompressor, for one thread. Throws std::bad_alloc.
inline Inflater make_inflater() {
  Inflater inflater(libdeflate_alloc_decompressor());
  if (!inflater) throw std::bad_alloc();
  return inflater;
}

}  // namespace isocost
