#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>

namespace isocost::cli {

/// Accepts numbers from `least` to `most`, and shows the range in --help. CLI::Range accepts NaN.
/// CLI11 clamps whole numbers beyond 64 bits, so `most` must be below the largest one.
template <typename Least, typename Most>
CLI::Validator number_range(Least least, Most most) {
  using Number = std::common_type_t<Least, Most>;
  const auto from = static_cast<Number>(least);
  const auto to = static_cast<Number>(most);
  std::ostringstream range;
  range.precision(15);
  range << from << " to " << to;
  return {[from, to, text = range.str()](const std::string& given) -> std::string {
            Number number{};
            const bool is_number = CLI::detail::lexical_cast(given, number);
            if (is_number && number >= from && number <= to) return {};
            return "'" + given + "' is not a number from " + text;
          },
          range.str()};
}

/// Adds an option for a whole number from `least` to `most`; --help shows range and default. The
/// limits are signed, so that -1 is not read as a huge number.
template <typename Count>
void add_count(CLI::App& command, const char* name, Count& value, std::int64_t least,
               std::int64_t most, const char* text) {
  command.add_option(name, value, text)->check(number_range(least, most))->capture_default_str();
}

/// Adds --seed, for samples that are drawn.
inline void add_seed(CLI::App& command, std::uint64_t& seed) {
  add_count(command, "--seed", seed, 0, std::int64_t{1} << 53, "Seed of the samples drawn");
}

/// Adds --force, for check_new_file.
inline void add_force(CLI::App& command, bool& force) {
  command.add_flag("--force", force, "Replace an older file without asking");
}

}  // namespace isocost::cli
