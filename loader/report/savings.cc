#include "loader/report/savings.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "loader/report/html_page.h"

namespace isocost {
namespace {

using nlohmann::ordered_json;

// Returns an amount in the unit that leaves it the fewest digits: "14.2 MB".
std::string bytes_text(double bytes, double step, const char* suffix) {
  constexpr std::array<std::string_view, 5> kDecimal = {"B", "kB", "MB", "GB", "TB"};
  constexpr std::array<std::string_view, 5> kBinary = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= step && unit + 1 < kDecimal.size()) {
    bytes /= step;
    ++unit;
  }
  return fmt::format("{:.3g} {}{}", bytes, (step == 1000 ? kDecimal : kBinary).at(unit), suffix);
}

std::string rate_text(double bytes_per_s) { return bytes_text(bytes_per_s, 1000, "/s"); }
std::string memory_text(double bytes) { return bytes_text(bytes, 1024, ""); }

// Thousands are apart: "10,752".
std::string amount(double value) {
  if (std::abs(value) < 1000) return fmt::format("{:.3g}", value);
  std::string digits = fmt::format("{:.0f}", std::abs(value));
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return value < 0 ? "-" + digits : digits;
}

std::string hours_of_week(const Savings& savings) {
  constexpr BalancePolicy kCost = BalancePolicy::kCost;
  std::string text =
      fmt::format("{} of the {} GPU-hours of a week on {} GPUs", amount(savings.gpu_hours(kCost)),
                  amount(Savings::kHoursAWeek * static_cast<double>(savings.gpus)), savings.gpus);
  if (const auto money = savings.money(kCost)) {
    text += fmt::format(", which is {} at {:g} per GPU-hour", amount(*money),
                        savings.price_per_gpu_hour.value_or(0));
  }
  return text;
}

std::string cores_text(const LoaderNeeds& needs) {
  return needs.cores ? fmt::format("{:.2f}", *needs.cores) : "not measured (--measure-decoding)";
}

ordered_json number_or_null(const std::optional<double>& number) {
  return number ? ordered_json(*number) : ordered_json(nullptr);
}

std::string needs_table(const LoaderNeeds& needs) {
  std::string rows = html_row({"samples per second", fmt::format("{:.4g}", needs.samples_per_s)});
  if (needs.read_bytes_per_s) {
    rows += html_row({"read from the data set", rate_text(*needs.read_bytes_per_s)});
  }
  return "<h2>What the loader needs</h2><table>" + rows +
         html_row({"sent to the ranks", rate_text(needs.sent_bytes_per_s)}) +
         html_row({"memory of all nodes together, at least", memory_text(needs.memory_bytes)}) +
         html_row({"busy cores of all nodes together", cores_text(needs)}) +
         "</table><p>At the step time of policy cost. Memory is the setting <code>memory</code>: "
         "decoded samples of three steps may hold half of it.</p>\n";
}

}  // namespace

double Savings::share(BalancePolicy policy) const {
  const double in_order = of(BalancePolicy::kInOrder).step_s;
  return in_order > 0 ? 1 - of(policy).step_s / in_order : 0;
}

double Savings::gpu_hours(BalancePolicy policy) const {
  return kHoursAWeek * static_cast<double>(gpus) * share(policy);
}

std::optional<double> Savings::money(BalancePolicy policy) const {
  if (!price_per_gpu_hour) return std::nullopt;
  return gpu_hours(policy) * *price_per_gpu_hour;
}

LoaderNeeds loader_needs(const SampleBytes& bytes, std::int64_t global_batch_size, double step_s,
                         std::optional<double> cpu_s_per_sample) {
  const auto samples = static_cast<double>(global_batch_size);
  LoaderNeeds needs;
  needs.samples_per_s = step_s > 0 ? samples / step_s : 0;
  if (bytes.encoded) needs.read_bytes_per_s = *bytes.encoded * needs.samples_per_s;
  needs.sent_bytes_per_s = bytes.tensors * needs.samples_per_s;
  needs.memory_bytes = 2 * LoaderNeeds::kStepsHeld * samples * bytes.tensors;
  if (cpu_s_per_sample) needs.cores = *cpu_s_per_sample * needs.samples_per_s;
  return needs;
}

std::string policies_text(const Savings& savings) {
  std::string text = fmt::format("{:<10} {:>9} {:>8}\n", "policy", "step s", "idle");
  for (std::size_t p = 0; p < savings.policies.size(); ++p) {
    const PolicyStep& step = savings.policies.at(p);
    text += fmt::format("{:<10} {:>9.4f} {:>7.2f}%{}\n", kBalancePolicyNames.at(p), step.step_s,
                        100 * step.idle_share, step.fits ? "" : "  (does not fit the memory)");
  }
  return text;
}

std::string week_text(const Savings& savings) {
  return fmt::format("cost saves {:.1f} % of in-order: {}\n",
                     100 * savings.share(BalancePolicy::kCost), hours_of_week(savings));
}

std::string needs_text(const LoaderNeeds& needs) {
  return fmt::format(
      "loader: {:.4g} samples/s; {}sends {}; memory at least {}; cores: {}\n", needs.samples_per_s,
      needs.read_bytes_per_s ? "reads " + rate_text(*needs.read_bytes_per_s) + ", " : "",
      rate_text(needs.sent_bytes_per_s), memory_text(needs.memory_bytes), cores_text(needs));
}

std::string savings_json(const Savings& savings) {
  ordered_json out = {{"gpus", savings.gpus}};
  for (std::size_t p = 0; p < savings.policies.size(); ++p) {
    const PolicyStep& step = savings.policies.at(p);
    out[std::string(kBalancePolicyNames.at(p))] = {
        {"step_s", step.step_s}, {"idle_share", step.idle_share}, {"fits", step.fits}};
  }
  out["saved_share"] = savings.share(BalancePolicy::kCost);
  out["gpu_hours_a_week"] = savings.gpu_hours(BalancePolicy::kCost);
  out["price_per_gpu_hour"] = number_or_null(savings.price_per_gpu_hour);
  out["money_a_week"] = number_or_null(savings.money(BalancePolicy::kCost));
  return out.dump();
}

std::string needs_json(const LoaderNeeds& needs) {
  return ordered_json{{"samples_per_s", needs.samples_per_s},
                      {"read_bytes_per_s", number_or_null(needs.read_bytes_per_s)},
                      {"sent_bytes_per_s", needs.sent_bytes_per_s},
                      {"memory_bytes", needs.memory_bytes},
                      {"cores", number_or_null(needs.cores)}}
      .dump();
}

std::string savings_html(const Savings& savings, const std::optional<LoaderNeeds>& needs,
                         const std::string& basis) {
  std::string out = "<h2>What balancing saves</h2><div class=\"tiles\">" +
                    html_tile(fmt::format("{:.1f} %", 100 * savings.share(BalancePolicy::kCost)),
                              "of the step time saved by policy cost") +
                    html_tile(amount(savings.gpu_hours(BalancePolicy::kCost)),
                              fmt::format("GPU-hours a week saved on {} GPUs", savings.gpus));
  if (const auto money = savings.money(BalancePolicy::kCost)) {
    out += html_tile(amount(*money), fmt::format("a week saved, at {:g} per GPU-hour",
                                                 savings.price_per_gpu_hour.value_or(0)));
  }
  out += "</div>\n<table>" + html_row({"policy", "step (seconds)", "idle", "saved"}, "th");
  for (std::size_t p = 0; p < savings.policies.size(); ++p) {
    const PolicyStep& step = savings.policies.at(p);
    out += html_row(
        {std::string(kBalancePolicyNames.at(p)) + (step.fits ? "" : " (does not fit the memory)"),
         fmt::format("{:#.4g}", step.step_s), fmt::format("{:.1f} %", 100 * step.idle_share),
         fmt::format("{:.1f} %", 100 * savings.share(static_cast<BalancePolicy>(p)))});
  }
  out += "</table><p>" + html_text(basis) + "</p>\n";
  if (needs) out += needs_table(*needs);
  return out;
}

}  // namespace isocost
