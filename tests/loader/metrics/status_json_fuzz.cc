// Any bytes in place of a node's status: an error, or a status that is written and read back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "loader/metrics/status_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace isocost;
  const auto status = parse_status({reinterpret_cast<const char*>(data), size});
  if (status && !parse_status(status_json(*status))) std::abort();
  return 0;
}
