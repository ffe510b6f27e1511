#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// The values of a section, by names in lower case. A value "b" in the lines that are indented
/// below a name "a" without a value of its own has the name "a.b".
using IniSection = std::map<std::string, std::string, std::less<>>;
using IniSections = std::map<std::string, IniSection, std::less<>>;

/// Parses the text of a file in which AWS's tools keep their settings, as botocore does. Errors:
/// kInvalidArgument with the line's number, but not the line, which may be secret: "line 3 is ...".
Result<IniSections> parse_ini(std::string_view text);

}  // namespace isocost
