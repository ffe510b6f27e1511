#include "loader/dataset/formats/tar_choice.h"

#include "base/fingerprint.h"

namespace isocost {

std::uint64_t TarChoice::origin() const {
  if (!samples && excluded.empty()) return 0;
  Fingerprint fingerprint;
  fingerprint.add(samples.value_or(-1));
  for (const std::string& key : excluded) fingerprint.add(key);
  return fingerprint.value();
}

}  // namespace isocost
