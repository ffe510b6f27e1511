#pragma once

#include <cstddef>
#include <fstream>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "balancer/layout/layout_search.h"
#include "base/result.h"

namespace isocost::cli {

/// The file of `isocost plan --resume`: JSON lines. The first names the inputs of the search; each
/// of the others holds the score of one layout. Single-thread.
class PlanCheckpoint {
 public:
  /// Reads the scores in `path`, if it exists, and opens it for more. An unfinished last line is
  /// dropped. An empty path gives a checkpoint that keeps nothing. Errors: kInvalidArgument for a
  /// file with other inputs and for a line that is not a score; kIo.
  static Result<PlanCheckpoint> open(const std::string& path, const std::string& inputs);

  std::optional<LayoutScore> recall(std::string_view key) const;
  void write(const LayoutRecord& record);

  /// Returns false if a score could not be written, for example to a full disk.
  bool kept_all() const { return !file_.is_open() || file_.good(); }

 private:
  Status read(const std::string& path, const std::string& inputs);

  std::map<std::string, LayoutScore> known_;
  std::ofstream file_;
};

nlohmann::ordered_json score_json(const LayoutScore& score);

}  // namespace isocost::cli
