#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "loader/dataset/formats/sample_reading.h"

namespace isocost {

/// A data set of a mixture, or the only one. Value type.
struct DataSource {
  std::string name;                 ///< The source's name in a mixture; empty: the only one.
  std::string data;                 ///< A data text (see Dataset::open).
  std::filesystem::path base = {};  ///< Directory to which the text is relative; empty: the present
                                    ///< one.
  ReadingOptions reading = {};
};

/// The sources of a data set. Value type.
struct DataSources {
  std::string given;  ///< The user's words, for messages: a data text or a mixture's file.
  std::vector<DataSource> sources;

  /// Returns the only source of a data text.
  static DataSources of_text(std::string text, ReadingOptions reading);
};

}  // namespace isocost
