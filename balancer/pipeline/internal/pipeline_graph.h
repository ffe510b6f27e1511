#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline/schedule.h"
#include "balancer/pipeline/simulator.h"

namespace isocost {

/// Seconds and bytes of a step without its structure: the part that changes when microbatches are
/// reordered. Values that a run reads are computed when a row is set.
class PassTable {
 public:
  explicit PassTable(const PipelineStep& step);

  /// Returns the encoder's rows, then the LLM's, replica by replica as in ModulePipeline::passes.
  std::span<const StagePass> rows() const { return rows_; }
  void set_row(std::size_t row, const StagePass& pass);
  void set_feed(std::size_t feed, std::int64_t bytes);

  static constexpr std::size_t kKinds = 3;  ///< Kinds of passes.

 private:
  friend class PipelineGraph;

  std::vector<StagePass> rows_;
  std::vector<double> seconds_;  ///< [rows × kinds]
  std::vector<double> delays_;   ///< 0, then output delays [rows], then delays [feeds].
  Link link_;
  const StepTransfers& transfers(bool encoder) const { return encoder ? encoder_ : llm_; }

  StepTransfers encoder_;
  StepTransfers llm_;
  bool split_ = false;
};

/// A step's passes, ordered such that each follows the passes it waits for. The order depends only
/// on the schedule, the degrees and the feeds, never on seconds, so a graph is built once and run
/// for many orders of microbatches.
class PipelineGraph {
 public:
  /// Builds the graph. Errors: those of `simulate`, except for invalid seconds.
  static Result<PipelineGraph> build(const PipelineStep& step);

  struct Operation {
    std::uint32_t row = 0;
    std::int32_t previous = -1;  ///< The operation before it on the same device.
    std::uint32_t device = 0;
    Pass pass;
    bool encoder = false;
  };

  std::span<const Operation> operations() const { return operations_; }
  std::size_t devices() const { return devices_; }

  /// Writes the end of every operation into `ends` [operations] and returns the end of the step.
  double run(const PassTable& table, std::span<double> ends) const;
  double seconds(const Operation& operation, const PassTable& table) const;

 private:
  friend class GraphBuilder;

  /// An operation that another waits for. `delay` is the index of its transfer in PassTable's
  /// delays.
  struct Input {
    std::uint32_t operation = 0;
    std::uint32_t delay = 0;
  };
  /// The compact form of an operation that a run reads, because runs dominate the time of a search.
  struct Move {
    std::uint32_t seconds = 0;  ///< Index into PassTable's seconds.
    std::int32_t previous = -1;
    std::uint32_t inputs_end = 0;
  };

  std::vector<Operation> operations_;
  std::vector<Move> moves_;
  std::vector<Input> inputs_;
  std::vector<std::uint32_t> last_;  ///< [devices]: the last operation.
  std::size_t devices_ = 0;
};

}  // namespace isocost
