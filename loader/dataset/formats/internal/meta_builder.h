#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "loader/dataset/formats/internal/meta_value.h"

namespace isocost {

/// Builds a MetaValue from the events of a parser, within the limits. A scalar that stands where a
/// map has its keys is a key. Single-thread.
class MetaBuilder {
 public:
  /// Errors: kCorrupt for a key that is there twice, or is no scalar; kResourceExhausted over the
  /// limits.
  Status scalar(MetaValue value);
  Status begin(MetaValue list_or_map);
  Status end();
  bool is_complete() const { return open_.empty() && !root_.is(MetaValue::Kind::kNull); }
  MetaValue take() && { return std::move(root_); }

 private:
  struct Open {
    MetaValue value;
    std::set<std::string> keys = {};
    std::string key = {};
    bool has_key = false;
  };
  bool wants_key() const;
  Status count();
  Status add(MetaValue value);

  std::vector<Open> open_;
  MetaValue root_ = MetaValue::null();
  std::size_t values_ = 0;
};

}  // namespace isocost
