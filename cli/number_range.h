#pragma once

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>
#include <type_traits>

namespace isocost::cli {

/// Accepts numbers from `least` to `most`, and shows the range in --help. CLI::Range accepts NaN.
/// CLI11 clamps whole numbers beyond 64 bits, so `most` must be below the largest one.
template <typename Least, typename Most>
CLI::Validator number_range(Least least, Most most) {
  using Number = std::common_type_t<Least, Most>;
  const auto text = [](Number number) {
    std::ostringstream out;
    out.precision(15);
    out << number;
    return out.str();
  };
  const std::string range = text(least) + " to " + text(most);
  return {[least = static_cast<Number>(least), most = static_cast<Number>(most),
           range](const std::string& given) -> std::string {
            Number number{};
            const bool is_number = CLI::detail::lexical_cast(given, number);
            if (is_number && number >= least && number <= most) return {};
            return "'" + given + "' is not a number from " + range;
          },
          range};
}

}  // namespace isocost::cli
