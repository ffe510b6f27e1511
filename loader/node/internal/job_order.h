#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "loader/dataset/dataset.h"
#include "loader/node/internal/blocks_of_sources.h"
#include "loader/node/node_options.h"
#include "loader/plan/cursor.h"
#include "loader/plan/mixture_cursor.h"
#include "transport/wire/messages.h"

namespace isocost {

/// The samples of all steps of a job. Immutable.
struct JobOrder {
  Cursor cursor;
  std::shared_ptr<const MixtureCursor> mixture;  ///< The one that `cursor` draws from, if any.
  std::string saved;                             ///< See StartPoint::mixture.
};

/// The orders of a node's jobs. All follow from the node's options. A job that goes on from a saved
/// state also keeps what the state's mixture had given to the steps before it, so that mixtures and
/// `skip_steps` can change between the runs of a job: see continued_mixture.
class JobOrders {
 public:
  /// `dataset` must outlive it. Errors: those of mixture_of_sources; kInvalidArgument for an epoch
  /// without a step, and for `skip_steps` beyond its end.
  static Result<JobOrders> create(const NodeOptions& options, const Dataset& dataset);

  /// Returns the order of a job that begins anew. Thread-safe.
  const std::shared_ptr<const JobOrder>& anew() const { return anew_; }

  /// Returns the order of a job that begins at `start`, whose cursor has been compared. `start` is
  /// then counted as this order counts: the end of a mixture with proportions, which has one epoch,
  /// becomes the end of that epoch, behind which a longer mixture goes on; with an error it stays
  /// as it is. Errors:
  /// kInvalidArgument for a state that this node cannot continue, with the remedy; kCorrupt. The
  /// result for one start is kept, since all ranks of a job ask for the same.
  Result<std::shared_ptr<const JobOrder>> continued(StartPoint& start);

  /// Returns why a saved state with this cursor cannot be continued, if its job and this node have
  /// one data set and differ in `shuffle` and `shuffle_shards` alone; otherwise nothing. Takes time
  /// in proportion to the shards.
  std::optional<std::string> other_shuffle(std::uint64_t cursor) const;

 private:
  struct Continued {
    StartPoint asked;  ///< Without the cost model's state, which ranks may have of other steps.
    StartPoint start;
    Result<std::shared_ptr<const JobOrder>> order;
  };
  JobOrders(const NodeOptions& options, const Dataset& dataset)
      : lookahead_(options.plan.lookahead), dataset_(&dataset), blocks_(options.plan, dataset) {}
  std::uint64_t window() const { return static_cast<std::uint64_t>(lookahead_); }
  Result<std::shared_ptr<const JobOrder>> continue_from_saved(StartPoint& start) const;
  Result<std::shared_ptr<const JobOrder>> with_mixture(const MixtureOptions& saved,
                                                       StartPoint& start) const;

  std::int64_t lookahead_;
  const Dataset* dataset_;
  BlocksOfSources blocks_;
  CursorOptions options_;
  std::shared_ptr<const JobOrder> anew_;
  std::optional<Continued> last_;
};

}  // namespace isocost
