#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline/schedule.h"
#include "balancer/pipeline/simulator.h"

namespace isocost {

/// Seconds and bytes of a step, apart from its structure: what changes when microbatches change
/// places. What a run reads is worked out when a row is set, not in each run.
class PassTable {
 public:
  explicit PassTable(const PipelineStep& step);

  /// Encoder rows, then LLM rows: replica by replica as in ModulePipeline::passes.
  std::span<const StagePass> rows() const { return rows_; }
  void set_row(std::size_t row, const StagePass& pass);
  void set_feed(std::size_t feed, std::int64_t bytes);

  static constexpr std::size_t kKinds = 3;  ///< Of passes.

 private:
  friend class PipelineGraph;

  std::vector<StagePass> rows_;
  std::vector<double> seconds_;  ///< [rows × kinds]
  std::vector<double> delays_;   ///< Nothing's, [rows] outputs', [feeds]
  Link link_;
  double encoder_reduce_s_ = 0;
  double llm_reduce_s_ = 0;
  bool split_ = false;
};

/// A step's passes in an order in which each follows what it waits for. It depends on the schedule,
/// the degrees and the feeds alone, never on seconds: built once, run for many orders.
class PipelineGraph {
 public:
  /// Errors: those of `simulate` but for seconds.
  static Result<PipelineGraph> build(const PipelineStep& step);

  struct Operation {
    std::uint32_t row = 0;
    std::int32_t previous = -1;  ///< On the same device.
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

  /// An operation waited for, and what travels from it: an index into PassTable's delays.
  struct Input {
    std::uint32_t operation = 0;
    std::uint32_t delay = 0;
  };
  /// What a run needs of an operation, in as few bytes as may be: runs are most of a search.
  struct Move {
    std::uint32_t seconds = 0;  ///< An index into PassTable's.
    std::int32_t previous = -1;
    std::uint32_t inputs_end = 0;
  };

  std::vector<Operation> operations_;
  std::vector<Move> moves_;
  std::vector<Input> inputs_;
  std::vector<std::uint32_t> last_;  ///< [devices]: the operation.
  std::size_t devices_ = 0;
};

}  // namespace isocost
