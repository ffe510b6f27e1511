// Whatever the bytes: a table of finite numbers >= 0 in full rows, or an error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cli/trace/cost_csv.h"

namespace {

void check(std::string_view text, const isocost::cli::CostCsvOptions& options) {
  const auto table = isocost::cli::parse_cost_csv(text, options);
  if (!table) return;
  if (table->columns == 0 || table->rows() == 0 || table->rows() > options.max_rows) std::abort();
  if (table->values.size() != table->rows() * table->columns) std::abort();
  if (!table->names.empty() && table->names.size() != table->columns) std::abort();
  for (const double value : table->values) {
    if (!std::isfinite(value) || value < 0) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text, {});
  check(text, {.wanted = {"llm_tokens", "encoder_patches"}, .max_rows = 3, .max_columns = 5});
  return 0;
}
