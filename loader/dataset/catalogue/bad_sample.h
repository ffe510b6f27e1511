#pragma once

#include <string>

namespace isocost {

/// A sample that cannot be used, and why. With an empty key it is the shard as a whole.
struct BadSample {
  std::string shard;
  std::string key;
  std::string part;  ///< Empty: the sample as a whole.
  std::string reason;
  /// Whether it was refused for a limit among the options (memory, max_tokens), not for its data.
  bool over_limit = false;
};

}  // namespace isocost
