// Any status that a node could answer with: a table of printable ASCII, and a JSON document.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/service/top_view.h"
#include "loader/metrics/status_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace isocost;
  const auto status = parse_status({reinterpret_cast<const char*>(data), size});
  if (!status) return 0;
  NodeMetrics before = *status;
  before.uptime_s /= 2;
  before.training.ranks.resize(before.training.ranks.size() / 2);
  const cli::TopView view{"http://127.0.0.1:9464/status.json", *status, before};
  for (const char c : cli::top_table(view, 4)) {
    if (c != '\n' && (c < ' ' || c > '~')) std::abort();
  }
  if (!nlohmann::json::accept(cli::top_json(view))) std::abort();
  return 0;
}
