#include "cli/common/savings_flags.h"

#include <charconv>
#include <cmath>
#include <system_error>

namespace isocost::cli {

void SavingsFlags::add_to(CLI::App& command) {
  command
      .add_option("--price-per-gpu-hour", price,
                  "What a GPU costs an hour, in any currency, to say what balancing saves a week")
      ->type_name("NUMBER");
  command.add_flag("--measure-decoding", measure_decoding,
                   "Serve the data on this host for some seconds, to say how many cores the loader "
                   "needs");
}

Result<std::optional<double>> SavingsFlags::price_per_gpu_hour() const {
  constexpr double kMost = 1e9;
  if (price.empty()) return std::optional<double>();
  double value = 0;
  const auto [end, failure] = std::from_chars(price.data(), price.data() + price.size(), value);
  const bool whole = failure == std::errc() && end == price.data() + price.size();
  if (whole && value > 0 && value <= kMost) return std::optional(value);
  return Error(ErrorCode::kInvalidArgument,
               "--price-per-gpu-hour is '" + price +
                   "'; it must be a number above 0 without a currency, such as 2.5");
}

}  // namespace isocost::cli
