// Takes steps from a node, from a saved state on, and saves the state after them: for tests that
// exchange states with Python.
//   state_client ENDPOINT STEPS STATE: reads and writes the file STATE, which may be missing.
// It prints a line for each step: epoch, step, and the ids of its samples with weight.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "trainer_adapter/client.h"
#include "trainer_adapter/state.h"

namespace isocost {
namespace {

void print_step(const Position& at, std::vector<std::uint64_t>& ids) {
  std::sort(ids.begin(), ids.end());
  std::printf("%u %u", at.epoch, at.step);
  for (const std::uint64_t id : ids) std::printf(" %llu", static_cast<unsigned long long>(id));
  std::printf("\n");
  ids.clear();
}

Status take_steps(const std::string& endpoint, int steps, const std::string& file) {
  ClientOptions options;
  options.endpoint = endpoint;
  State state;
  if (std::ifstream in(file); in) {
    ISOCOST_ASSIGN(state, State::from_json(std::string(std::istreambuf_iterator<char>(in), {})));
  }
  options.start = state;
  ISOCOST_ASSIGN(const auto client, Client::connect(options));
  state.cursor = client->welcome().start.cursor;
  std::vector<std::uint64_t> ids;
  while (steps > 0) {
    ISOCOST_ASSIGN(const auto microbatch, client->next());
    if (!microbatch) continue;  // the end of an epoch
    const MicrobatchHeader& header = microbatch->header;
    if (!header.cost_model_state.empty()) state.cost_model_state = header.cost_model_state;
    for (const SampleEntry& sample : header.samples) {
      if (sample.weight > 0) ids.push_back(sample.id);
    }
    if (!header.last_of_step()) continue;
    print_step(header.position, ids);
    state.epoch = header.position.epoch + (header.last_of_epoch() ? 1 : 0);
    state.step = header.last_of_epoch() ? 0 : header.position.step + 1;
    --steps;
  }
  client->close();
  std::ofstream(file) << state.to_json();
  return {};
}

}  // namespace
}  // namespace isocost

int main(int argc, char** argv) try {
  if (argc != 4) return 2;
  return isocost::exit_code(isocost::take_steps(argv[1], std::stoi(argv[2]), argv[3]));
} catch (const std::exception& error) {
  std::fprintf(stderr, "state_client: %s\n", error.what());
  return 1;
}
