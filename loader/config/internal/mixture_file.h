#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "loader/dataset/data_source.h"
#include "loader/plan/mixture/mixture_description.h"

namespace isocost {

/// Most bytes of a mixture file.
inline constexpr std::size_t kMostMixtureFileBytes = std::size_t{1} << 20;

/// Returns whether a data text names a mixture file: an existing file that ends in ".toml".
bool names_mixture(std::string_view data);

/// Reads the text of a mixture file (docs/data.md). `file` is its path, for messages and for paths
/// in it. Errors: kInvalidArgument with file, line, key and a remedy.
Result<MixtureDescription> parse_mixture(std::string_view toml, const std::filesystem::path& file);

/// Returns the data sets that a mixture names. `given`: the file, for messages; `reading`: how
/// sources are read that do not say it. Errors: kUnsupported for keys that are not read yet.
Result<DataSources> data_sources(const MixtureDescription& mixture, std::string given,
                                 const ReadingOptions& reading);

/// Reads a mixture file. Errors: those of read_file and parse_mixture.
Result<MixtureDescription> read_mixture_file(const std::filesystem::path& file);

}  // namespace isocost
