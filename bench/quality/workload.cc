#include "bench/quality/workload.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>

#include "base/random.h"

namespace isocost {
namespace {

constexpr double kVisionFlopPerPatch = 913e6;
constexpr double kLlmFlopPerToken = 13.05e9;
constexpr double kLlmFlopPerTokenSquared = 200'704;
constexpr double kBytesPerPatch = 14 * 14 * 3 * 4;
constexpr double kBytesPerToken = 16;

bool parse_number(std::string_view text, double& value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size() && value >= 0;
}

Result<TraceSample> parse_row(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t start = 0; start <= line.size();) {
    const std::size_t comma = std::min(line.find(',', start), line.size());
    fields.push_back(line.substr(start, comma - start));
    start = comma + 1;
  }
  TraceSample sample;
  if (fields.size() != 4 || !parse_number(fields[2], sample.encoder_patches) ||
      !parse_number(fields[3], sample.llm_tokens)) {
    return Error(ErrorCode::kCorrupt, "expected id,modality,encoder_patches,llm_tokens");
  }
  return sample;
}

Result<std::vector<TraceSample>> load_trace(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) return Error(ErrorCode::kNotFound, file.string() + " cannot be opened");
  std::vector<TraceSample> samples;
  std::string line;
  std::getline(stream, line);  // header
  for (int number = 2; std::getline(stream, line); ++number) {
    Result<TraceSample> sample = parse_row(line);
    if (!sample) {
      return std::move(sample).error().with_context(file.string() + ":" + std::to_string(number));
    }
    samples.push_back(*sample);
  }
  if (samples.empty()) return Error(ErrorCode::kCorrupt, file.string() + " holds no samples");
  return samples;
}

void append(BalanceProblem& problem, const TraceSample& sample) {
  const double bytes = sample.encoder_patches * kBytesPerPatch + sample.llm_tokens * kBytesPerToken;
  problem.costs.push_back(sample.encoder_patches * kVisionFlopPerPatch);
  problem.costs.push_back(sample.llm_tokens *
                          (kLlmFlopPerToken + kLlmFlopPerTokenSquared * sample.llm_tokens));
  if (problem.dimensions == 3) problem.costs.push_back(bytes);
  problem.sizes.push_back(static_cast<std::int64_t>(bytes));
}

void scale(BalanceProblem& problem) {
  const auto bins = static_cast<double>(problem.ranks * problem.microbatches);
  std::vector<double> sums(problem.dimensions, 0.0);
  for (std::size_t i = 0; i < problem.costs.size(); ++i) {
    sums[i % problem.dimensions] += problem.costs[i];
  }
  if (problem.objective == Objective::kSlowestRank) sums.assign(2, sums[0] + sums[1]);
  for (std::size_t i = 0; i < problem.costs.size(); ++i) {
    problem.costs[i] *= bins / sums[i % problem.dimensions];
  }
}

}  // namespace

TraceSample draw(const TraceMixture& mixture, Random& random) {
  std::uint64_t total = 0;
  for (const std::uint64_t weight : mixture.weights) total += weight;
  std::uint64_t ticket = random.below(total);
  std::size_t trace = 0;
  while (ticket >= mixture.weights[trace]) ticket -= mixture.weights[trace++];
  return mixture.traces[trace][random.below(mixture.traces[trace].size())];
}

Result<TraceMixture> load_mixture(const std::string& name, const std::filesystem::path& folder) {
  TraceMixture mixture{.name = name, .traces = {}, .weights = {}};
  std::vector<std::pair<std::string, std::uint64_t>> parts = {{name, 1}};
  if (name == "mixed") parts = {{"documents", 2}, {"videos", 2}, {"photos", 1}, {"speech", 1}};
  for (const auto& [trace, weight] : parts) {
    ISOCOST_ASSIGN(auto samples, load_trace(folder / (trace + ".csv")));
    mixture.traces.push_back(std::move(samples));
    mixture.weights.push_back(weight);
  }
  return mixture;
}

BalanceProblem draw_problem(const TraceMixture& mixture, Objective objective, std::size_t items,
                            std::size_t ranks, std::size_t microbatches, double cap,
                            std::uint64_t seed) {
  BalanceProblem problem{.dimensions = objective == Objective::kSlowestRank || cap > 0
                                           ? std::size_t{2}
                                           : std::size_t{3},
                         .resources = {{"bytes", std::numeric_limits<std::int64_t>::max()}},
                         .ranks = ranks,
                         .microbatches = microbatches,
                         .objective = objective};
  Random random(seed);
  for (std::size_t i = 0; i < items; ++i) append(problem, draw(mixture, random));
  scale(problem);
  if (cap > 0) {
    double sum = 0;
    for (const std::int64_t bytes : problem.sizes) sum += static_cast<double>(bytes);
    const double mean = sum / static_cast<double>(ranks * microbatches);
    problem.resources.front().cap =
        std::max(static_cast<std::int64_t>(cap * mean),
                 *std::max_element(problem.sizes.begin(), problem.sizes.end()));
  }
  return problem;
}

}  // namespace isocost
