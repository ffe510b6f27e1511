#include "cli/common/json_output.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace isocost::cli {

void print_json(const nlohmann::ordered_json& members, int indent) {
  nlohmann::ordered_json document = {{"version", kJsonVersion}};
  for (const auto& [name, value] : members.items()) document[name] = value;
  std::printf(
      "%s\n",
      document.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

}  // namespace isocost::cli
