#include "loader/dataset/find_sample.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/edit_distance.h"
#include "loader/dataset/bad_samples.h"
#include "loader/dataset/sample_name.h"

namespace isocost {
namespace {

constexpr std::uint64_t kMostCompared = 100'000;  // names that are compared with a wrong one
constexpr std::size_t kLongestCompared = 256;
constexpr std::size_t kMostSimilar = 3;

// Returns the key in a name that begins with this shard; empty: it does not.
std::string_view key_in(std::string_view name, std::string_view shard) {
  const bool fits =
      name.size() > shard.size() + 1 && name.starts_with(shard) && name[shard.size()] == '/';
  return fits ? name.substr(shard.size() + 1) : std::string_view();
}

std::vector<SampleId> with_key(const Dataset& dataset, SampleId first, std::uint64_t count,
                               std::string_view key) {
  std::vector<SampleId> found;
  for (SampleId id = first; id < first + count; ++id) {
    if (dataset.key(id) == key) found.push_back(id);
  }
  return found;
}

// Returns the samples of the longest shard with which the name begins, and which has such a key.
std::vector<SampleId> in_shard(const Dataset& dataset, std::string_view name) {
  std::vector<std::size_t> fitting;
  for (std::size_t i = 0; i < dataset.shards(); ++i) {
    if (!key_in(name, dataset.shard_name(i)).empty()) fitting.push_back(i);
  }
  std::ranges::sort(fitting, std::ranges::greater(),
                    [&](std::size_t i) { return dataset.shard_name(i).size(); });
  for (const std::size_t i : fitting) {
    const ShardFacts facts = dataset.shard_facts(i);
    auto found = with_key(dataset, facts.first, facts.usable, key_in(name, dataset.shard_name(i)));
    if (!found.empty()) return found;
  }
  return {};
}

std::string name_of(const Dataset& dataset, SampleId id) {
  return sample_name(dataset.shard(id), dataset.key(id));
}

std::vector<SampleId> as_printed(const Dataset& dataset, std::string_view name) {
  std::vector<SampleId> found;
  if (name.find_first_of("\\?") == std::string_view::npos) return found;
  for (SampleId id = 0; id < dataset.size(); ++id) {
    if (name_of(dataset, id) == name) found.push_back(id);
  }
  return found;
}

std::vector<SampleId> meant(const Dataset& dataset, std::string_view name) {
  auto found = in_shard(dataset, name);
  if (found.empty()) found = with_key(dataset, 0, dataset.size(), name);
  return found.empty() ? as_printed(dataset, name) : found;
}

// Returns the edit distance; `most` where the sizes alone differ by as much.
std::size_t distance(std::string_view a, std::string_view b, std::size_t most) {
  const std::size_t sizes = std::max(a.size(), b.size()) - std::min(a.size(), b.size());
  return sizes >= most ? most : edit_distance(a, b);
}

// Returns the names that differ least from a wrong one, and by no more than a third of it.
std::vector<std::string> similar_names(const Dataset& dataset, std::string_view wrong) {
  std::vector<std::pair<std::size_t, std::string>> similar;
  if (wrong.size() > kLongestCompared) return {};
  const std::size_t most = std::max<std::size_t>(wrong.size() / 3, 2);
  for (SampleId id = 0; id < std::min(dataset.size(), kMostCompared); ++id) {
    const std::string key = dataset.key(id);
    std::string name = name_of(dataset, id);
    // A user may have left out the shard, or the source.
    const std::string_view end =
        std::string_view(name).substr(name.size() - std::min(name.size(), wrong.size()));
    const std::size_t differs =
        end == wrong ? 0 : std::min(distance(wrong, key, most), distance(wrong, name, most));
    if (differs >= most) continue;
    if (similar.size() == kMostSimilar && similar.back().first <= differs) continue;
    similar.emplace_back(differs, std::move(name));
    std::ranges::stable_sort(similar, {}, &std::pair<std::size_t, std::string>::first);
    if (similar.size() > kMostSimilar) similar.pop_back();
  }
  std::vector<std::string> names;
  names.reserve(similar.size());
  for (auto& [differs, name] : similar) names.push_back(std::move(name));
  return names;
}

Error not_found(const Dataset& dataset, std::string_view name, std::string_view data) {
  std::string text = std::string(data) + " holds no sample with the key '" + printable_name(name) +
                     "'; keys are member names without their extension";
  const std::vector<std::string> similar = similar_names(dataset, name);
  for (std::size_t i = 0; i < similar.size(); ++i) {
    text += (i == 0 ? "; similar: " : ", ") + similar[i];
  }
  if (similar.empty() && dataset.size() > 0) text += "; the first is " + name_of(dataset, 0);
  return {ErrorCode::kNotFound, text};
}

}  // namespace

Result<SampleId> find_sample(const Dataset& dataset, std::string_view name, std::string_view data) {
  const std::vector<SampleId> found = meant(dataset, name);
  if (found.size() == 1) return found.front();
  if (found.size() > 1) {
    return Error(ErrorCode::kInvalidArgument,
                 counted(found.size(), "sample") + " have the key '" + printable_name(name) +
                     "': give one as shard/key, such as " + name_of(dataset, found[0]) + " or " +
                     name_of(dataset, found[1]));
  }
  for (const BadSample& bad : dataset.bad()) {
    if (bad.key == name || key_in(name, bad.shard) == bad.key) {
      return Error(ErrorCode::kCorrupt, "the sample is bad: " + describe(bad));
    }
  }
  return not_found(dataset, name, data);
}

}  // namespace isocost
