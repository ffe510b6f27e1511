#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline.h"

namespace isocost {

/// Seconds and bytes of a step, apart from its structure: what changes when microbatches change
/// places.
struct PassTable {
  /// Encoder rows, then LLM rows: replica by replica as in ModulePipeline::passes.
  std::vector<StagePass> rows;
  std::vector<std::int64_t> feed_bytes;  ///< [feeds]
  Link link;
  double encoder_reduce_s = 0;
  double llm_reduce_s = 0;

  explicit PassTable(const PipelineStep& step);
};

/// A step's passes in an order in which each follows what it waits for. It depends on the schedule,
/// the degrees and the feeds alone, never on seconds: built once, run for many orders.
class PipelineGraph {
 public:
  /// Errors: those of `simulate` but for seconds.
  static Result<PipelineGraph> build(const PipelineStep& step);

  /// An operation waited for; what travels from it: the output of table row `index`, feed `index`,
  /// or nothing.
  struct Input {
    enum class Carries : std::uint8_t { kNothing, kOutput, kFeed };
    std::uint32_t operation = 0;
    std::uint32_t index = 0;
    Carries carries = Carries::kNothing;
  };
  struct Operation {
    std::uint32_t row = 0;
    std::int32_t previous = -1;  ///< On the same device.
    std::uint32_t first_input = 0;
    std::uint32_t inputs = 0;
    std::uint32_t device = 0;
    Pass pass;
    bool encoder = false;
  };

  std::span<const Operation> operations() const { return operations_; }
  std::size_t devices() const { return devices_; }

  /// The end of every operation into `ends` [operations]; returns when the step ends.
  double run(const PassTable& table, std::span<double> ends) const;
  double seconds(const Operation& operation, const PassTable& table) const;

 private:
  friend class GraphBuilder;
  std::vector<Operation> operations_;
  std::vector<Input> inputs_;
  std::size_t devices_ = 0;
  bool split_ = false;
};

}  // namespace isocost
