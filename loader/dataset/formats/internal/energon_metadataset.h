#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "loader/dataset/formats/internal/meta_value.h"

namespace isocost {

/// Returns whether a document describes a metadataset of Energon: data sets that are mixed.
bool is_energon_metadataset(const MetaValue& document);

/// Returns the text of a mixture.toml that means the same as a split of a metadataset: `blend` and
/// the `datasets` of older files become proportions, `blend_epochized` becomes epochs. What no
/// mixture has (subsets, nested metadatasets) stands there as a comment that begins with "TODO".
/// Errors: kInvalidArgument for a split that is not there; kUnsupported for joined data sets;
/// kCorrupt for a document that is not of this form.
Result<std::string> mixture_of_metadataset(const MetaValue& document, std::string_view split);

}  // namespace isocost
