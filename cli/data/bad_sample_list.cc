#include "cli/data/bad_sample_list.h"

#include <cstdio>

namespace isocost::cli {

void print_bad_samples(const std::vector<BadSample>& bad) {
  for (const BadSample& sample : bad) std::printf("bad  %s\n", describe(sample).c_str());
}

nlohmann::ordered_json bad_samples_json(const std::vector<BadSample>& bad) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const BadSample& sample : bad) {
    list.push_back(nlohmann::ordered_json::parse(to_json_line(sample)));
  }
  return list;
}

}  // namespace isocost::cli
