#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/dataset/formats/sample_fields.h"

namespace isocost {

/// Says what is read of one tar, where its data set says more than the tar itself. Value type.
struct TarChoice {
  /// The fields of its samples. Null: their parts are read as they lie.
  std::shared_ptr<const SampleFields> fields;
  std::optional<std::int64_t> samples;  ///< Their number as the data set states it.
  std::string stated_in;                ///< The file that states it, for messages.
  std::vector<std::string> excluded;    ///< Keys of samples that are left out; sorted.

  /// Returns a hash of the number and of the samples that are left out (IndexIdentity::origin);
  /// 0 if the data set says neither. The fields belong to SampleReading::hash.
  std::uint64_t origin() const;
};

}  // namespace isocost
