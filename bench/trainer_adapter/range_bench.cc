// Compares the cost of a TorchLoader's range with that of `next` and `to_torch` by hand.
//
//     build/release/bench/range_bench [ROUNDS]
//
// A node in this process delivers one epoch of short texts, a sample in a microbatch. In a round
// (default: 200 rounds) the same loader takes a block of them by hand, one by a range-based `for`
// over `epochs()`, and one by hand again. CPU time is that of the thread that takes them; each
// block waits in the client before its clock starts. Every microbatch has to be the one that
// follows, with the same tensors, whichever way it was taken.

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/scratch_directory.h"
#include "base/statistics.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "loader/node/node_thread.h"
#include "trainer_adapter/torch/torch_loader.h"

namespace isocost {
namespace {

constexpr int kBlock = 32;  // microbatches
constexpr int kWarmUp = 5;  // rounds
constexpr std::chrono::milliseconds kFill{20};

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "range_bench: %s\n", what.c_str());
  std::exit(1);
}

double thread_us() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

std::unique_ptr<Node> make_node(const ScratchDirectory& scratch, int samples) {
  std::ofstream manifest(scratch / "manifest.jsonl");
  for (int i = 0; i < samples; ++i) {
    manifest << R"({"key": ")" << i << R"(", "parts": [{"name": "txt", "text": "a short text"}]})"
             << "\n";
  }
  manifest.close();
  make_shards(scratch / "manifest.jsonl", scratch / "shards", {}).value();
  NodeOptions options;
  options.data = scratch / "shards";
  options.plan.ranks = 1;
  options.plan.global_batch_size = kBlock;
  options.plan.microbatches = kBlock;
  options.bad_samples.file.clear();
  options.service.bind = "tcp://127.0.0.1:*";
  return Node::create(options, {}, {}).value();
}

// Finds a microbatch that is not the next one.
class Sequence {
 public:
  void follow(const TorchMicrobatch& microbatch) {
    const Position& position = microbatch.header.position;
    const std::uint32_t at = position.step * kBlock + position.microbatch;
    if (at != next_++) give_up("microbatch " + std::to_string(at) + " came out of turn");
    if (tensors_ == 0) tensors_ = microbatch.tensors.size();
    if (microbatch.tensors.size() != tensors_) give_up("tensors are missing");
  }

 private:
  std::uint32_t next_ = 0;
  std::size_t tensors_ = 0;
};

void take_by_hand(TorchLoader& loader, Sequence& sequence) {
  for (int i = 0; i < kBlock; ++i) {
    const std::optional<Microbatch> taken = loader.client().next().value();
    if (!taken) give_up("the epoch ended");
    const TorchMicrobatch microbatch = to_torch(*taken);
    sequence.follow(microbatch);
  }
}

void take_by_range(TorchLoader& loader, Sequence& sequence) {
  int taken = 0;
  for (auto& epoch : loader.epochs()) {
    for (const auto& microbatch : epoch) {
      sequence.follow(microbatch);
      if (++taken == kBlock) return;
    }
  }
  give_up("the epoch ended");
}

// Returns microseconds of this thread for each microbatch of a block.
template <typename Take>
double measure(TorchLoader& loader, Sequence& sequence, Take take) {
  std::this_thread::sleep_for(kFill);  // until the block has come
  const double begin = thread_us();
  take(loader, sequence);
  return (thread_us() - begin) / kBlock;
}

void print(const char* name, std::vector<double> us) {
  std::ranges::sort(us);
  const auto at = [&](double share) {
    return us[static_cast<std::size_t>(share * static_cast<double>(us.size() - 1))];
  };
  std::printf("%-40s %7.3f us (%.3f to %.3f)\n", name, median(us), at(0.1), at(0.9));
}

void run(int rounds) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-range-bench").value();
  NodeThread node(make_node(scratch, 3 * kBlock * (kWarmUp + rounds + 1)));
  LoaderOptions options;
  options.endpoint = node.endpoint();
  options.prefetch = 2 * kBlock;
  TorchLoader loader(options);
  Sequence sequence;
  std::vector<double> by_hand, by_range, added, noise;
  for (int round = -kWarmUp; round < rounds; ++round) {
    const double before = measure(loader, sequence, take_by_hand);
    const double range = measure(loader, sequence, take_by_range);
    const double after = measure(loader, sequence, take_by_hand);
    if (round < 0) continue;
    by_hand.push_back((before + after) / 2);
    by_range.push_back(range);
    added.push_back(range - (before + after) / 2);
    noise.push_back(after - before);
  }
  std::printf("CPU time of a microbatch, %d rounds of blocks of %d: median (10th to 90th of 100)\n",
              rounds, kBlock);
  print("next and to_torch by hand", by_hand);
  print("range", by_range);
  print("the range adds", added);
  print("by hand, the second block less the first", noise);
}

}  // namespace
}  // namespace isocost

int main(int argc, char** argv) try {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
  if (rounds < 1) isocost::give_up("ROUNDS must be a number from 1 on");
  isocost::run(rounds);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "range_bench: %s\n", error.what());
  return 1;
}
