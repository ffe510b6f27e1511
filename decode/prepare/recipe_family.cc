#include "decode/prepare/recipe_family.h"

#include "base/result.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

Status check_size(const PartBytes& part) {
  if (part.source->size() == part.shape->encoded_bytes) return {};
  return corrupt("its size has changed since it was indexed");
}

}  // namespace isocost
