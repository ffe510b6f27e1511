#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Receives the values of a JSON text in their order. Each function may end reading with an error
/// of its own. By default it takes note of nothing.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual Status null() { return {}; }
  virtual Status boolean(bool /*value*/) { return {}; }
  /// A number as it stands in the text; json_number converts it.
  virtual Status number(std::string_view /*token*/) { return {}; }
  /// A string without its quotes and escapes, which may be moved from.
  virtual Status string(std::string& /*value*/) { return {}; }
  /// A member's name, before its value. It may be moved from.
  virtual Status key(std::string& /*name*/) { return {}; }
  virtual Status begin_object() { return {}; }
  virtual Status end_object() { return {}; }
  virtual Status begin_array() { return {}; }
  virtual Status end_array() { return {}; }
};

/// Reads a JSON text (RFC 8259) as Python's json module writes and reads it: NaN, Infinity and
/// -Infinity are numbers, numbers may be of any length, and a byte order mark may stand before it.
/// Takes memory for one string and `max_depth`. Errors: kCorrupt with line and column (in
/// characters, from 1), what is expected and what stands there, as a predicate: "is wrong at line
/// 1, column 7: ..."; those of `events`.
Status read_json(std::string_view text, JsonEvents& events, std::size_t max_depth);

/// Returns a number that read_json found: infinite beyond the largest one, 0 below the least.
double json_number(std::string_view token);

}  // namespace isocost
