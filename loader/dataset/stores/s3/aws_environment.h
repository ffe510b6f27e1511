#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace isocost {

/// Environment variables, which say how AWS and its stores are reached. Passed in, so that a test
/// need not change those of its process. Value type.
struct AwsEnvironment {
  std::map<std::string, std::string, std::less<>> variables = {};

  /// Returns the value of a variable; empty: it is not set, or empty.
  std::string_view get(std::string_view name) const;
};

/// Returns the variables of this process. Not while another thread changes them.
AwsEnvironment process_environment();

}  // namespace isocost
