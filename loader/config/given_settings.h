#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

struct OptionSpec;

/// A setting of a node as it was given.
struct Setting {
  const OptionSpec* option;
  std::string value;  ///< Text, in the notation of docs/config.md.
  /// The place where it was given, with which an error about it begins: "--max-tokens" or
  /// "node.toml:12: max_tokens".
  std::string source;
};

/// The settings that were given to a node. Flags, a TOML file and Python's arguments all become
/// such a list, and nothing else in C++ records what was given; objects of Python's options
/// remember it until then (isocost/options/given_fields.py). A setting overrides earlier ones of
/// the same name.
class GivenSettings {
 public:
  void add(const OptionSpec& option, std::string value, std::string source);
  /// Errors: kInvalidArgument that begins with `source` if there is no setting of this name.
  Status add(std::string_view name, std::string value, std::string source);
  /// Adds those of TOML text. Relative paths in it are relative to the working directory.
  /// Errors: kInvalidArgument with file, line and the unknown key or the value of a wrong type.
  Status add_toml(std::string_view toml, std::string_view file_name);
  /// Adds all settings of a list, which override those of this one.
  void add(const GivenSettings& later);

  /// Returns the setting of this name that holds, or null if none was given. The pointer is valid
  /// until something is added.
  const Setting* find(std::string_view name) const;
  const std::vector<Setting>& list() const { return list_; }

 private:
  std::vector<Setting> list_;
};

}  // namespace isocost
