#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "loader/plan/mixture/proportion_schedule.h"
#include "loader/plan/mixture/step_ranges.h"

namespace isocost {

/// A source as a mixture file names it.
struct SourceDescription {
  std::string name;
  std::vector<std::string> paths;           ///< Data texts, relative to the file's directory.
  std::filesystem::path media_root;         ///< Directory of the records' media; empty: not given.
  std::string format;                       ///< Empty: what the data says.
  std::string split;                        ///< Empty: the format's own choice.
  std::optional<std::string> text;          ///< Place of a sample's text; none: the node's option.
  std::optional<std::string> ignore_parts;  ///< None: the node's option.
  std::optional<std::string> weight_key;    ///< None: the node's option.
  ProportionSchedule schedule;              ///< Without breakpoints: by size.
  std::uint64_t epochs = 0;                 ///< 0: not given.
  std::string place;  ///< Place in the file, for messages: "mixture.toml:3: source 'captions'".

  bool operator==(const SourceDescription&) const = default;
};

/// A mixture file. Nothing that it names has been looked at.
struct MixtureDescription {
  std::filesystem::path directory;  ///< The file's, to which paths are relative.
  std::vector<SourceDescription> sources;
  std::uint64_t steps = 0;  ///< 0: not given.
  SkippedSteps skipped;

  bool operator==(const MixtureDescription&) const = default;
};

}  // namespace isocost
