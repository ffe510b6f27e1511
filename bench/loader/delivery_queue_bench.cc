// Bookkeeping of delivery: one step of N ranks, 16 microbatches each, from its push to its last
// acknowledgement, with the room of planning asked for at each acknowledgement as a node does.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "loader/node/internal/delivery_queue.h"

namespace isocost {
namespace {

constexpr std::uint32_t kMicrobatches = 16;

// A step without samples: delivery looks at positions alone.
std::shared_ptr<SealedStep> step_of(std::uint32_t number, std::size_t ranks) {
  auto step = std::make_shared<SealedStep>();
  step->step = number;
  step->plan.microbatches = kMicrobatches;
  step->plan.bins.resize(ranks * kMicrobatches);
  return step;
}

// Ends the program if a step was not delivered as a whole: a fast wrong queue has no figure.
void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "delivery_queue_bench: %s\n", what);
  std::exit(1);
}

void deliver_steps(benchmark::State& state) {
  const auto ranks = static_cast<std::int32_t>(state.range(0));
  DeliveryQueue queue(ranks);
  for (std::int32_t rank = 0; rank < ranks; ++rank) queue.join(rank, {});
  std::uint32_t number = 0;
  for (auto _ : state) {
    queue.push(step_of(number, static_cast<std::size_t>(ranks)));
    std::size_t sent = 0;
    for (std::uint32_t m = 0; m < kMicrobatches; ++m) {
      for (std::int32_t rank = 0; rank < ranks; ++rank) queue.grant(rank, 1);
      while (queue.next()) ++sent;
      for (std::int32_t rank = 0; rank < ranks; ++rank) {
        queue.acknowledge(rank, {0, number, m});
        benchmark::DoNotOptimize(queue.ahead());
        benchmark::DoNotOptimize(queue.any_unacknowledged());
      }
    }
    ++number;
    expect(sent == std::size_t{kMicrobatches} * static_cast<std::size_t>(ranks),
           "not all was sent");
    expect(queue.delivered().steps == number, "a step was not acknowledged");
  }
  state.counters["microbatches"] = benchmark::Counter(
      static_cast<double>(number) * kMicrobatches * ranks, benchmark::Counter::kIsRate);
}
BENCHMARK(deliver_steps)->Arg(64)->Arg(1'000)->Arg(10'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace isocost

BENCHMARK_MAIN();
