#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "base/sample_part.h"
#include "decode/recipe.h"
#include "decode/shape/sample_shape.h"
#include "loader/dataset/dataset.h"

namespace isocost::cli {

/// One part of a sample as the recipe prepares it, and the part's contribution to the sample's
/// load.
struct PartExplanation {
  std::string name;  ///< Name in the shard: "0.jpg".
  PartShape shape;   ///< Shape according to its header.
  SamplePart made;   ///< Patch grid, frames.
  Load load;         ///< The part's load; for a model's text, only its tokens.
};

/// A sample of a data set, explained for people.
struct SampleExplanation {
  std::string key;
  std::string shard;
  Load load;
  std::vector<PartExplanation> parts;

  /// Returns the number of tokens that belong to no part: those that begin and end the sequence.
  std::int64_t other_tokens() const;
};

/// Returns the explanation of a sample. Errors: those of Recipe::load and Recipe::parts.
Result<SampleExplanation> explain_sample(const Recipe& recipe, const Dataset& dataset, SampleId id);

nlohmann::ordered_json to_json(const SampleExplanation& sample);

/// Returns the size of a part for people: "640x480", "640x480, 2.0 s"; empty for a text.
std::string size_text(const PartShape& shape);
/// Returns what the model sees of a part, for people: "12x16 patches", "3 label tokens".
std::string made_text(const PartExplanation& part);

/// Prints a table of the parts on standard output.
void print_parts(const SampleExplanation& sample);

}  // namespace isocost::cli
