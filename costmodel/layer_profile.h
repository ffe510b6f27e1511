#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "costmodel/profile.h"

namespace isocost {

/// Measurements of single layers on one rank of a pipeline stage, as that rank runs them. They are
/// a stage's part of a model profile: ranks of a pipeline have no inputs for the layers of others.
struct LayerProfile {
  struct Module {
    std::int64_t layers = 1;           ///< Number of equal layers that ran one after another.
    std::vector<ProfilePoint> points;  ///< Seconds of these layers together; not empty.
    ModuleLoad out_of_memory = {};     ///< The smallest load that did not fit; zero: all did.
  };
  /// The modules that were measured.
  std::array<std::optional<Module>, kModules> modules;

  const std::optional<Module>& operator[](CostModule module) const {
    return modules.at(static_cast<std::size_t>(module));
  }

  /// Parses JSON, see docs/model_profile.md. Errors: kCorrupt naming the field that is missing,
  /// unknown, mistyped, negative or not finite, or the points that contradict each other;
  /// kUnsupported for another kind of document or another version.
  static Result<LayerProfile> parse(std::string_view json);
  std::string to_json() const;
};

}  // namespace isocost
