#include "balancer/partition/internal/assignment_ilp.h"

#include <glpk.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace isocost {
namespace {

// Loads and sizes are rounded to multiples of this fraction of their limit. It is far above GLPK's
// tolerance of 1e-7, and a power of two, so that sums are exact.
constexpr double kGrain = 0x1p-18;
constexpr double kRoundingUp = 1e-12;  // largest relative error of a quotient
constexpr int kMostRounds = 200;

// GLPK keeps one environment per thread. Frees it on destruction if this object created it.
class Environment {
 public:
  Environment() : ours_(glp_init_env() == 0), terminal_(glp_term_out(GLP_OFF)) {}
  ~Environment() {
    glp_term_out(terminal_);
    if (ours_) glp_free_env();
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  bool ours_;
  int terminal_;
};

struct DeleteProblem {
  void operator()(glp_prob* problem) const { glp_delete_prob(problem); }
};

struct NodeBudget {
  std::int64_t nodes = 0;
  bool spent = false;
};

void count_node(glp_tree* tree, void* info) {
  auto* budget = static_cast<NodeBudget*>(info);
  if (glp_ios_reason(tree) != GLP_ISELECT) return;
  if (--budget->nodes >= 0) return;
  budget->spent = true;
  glp_ios_terminate(tree);
}

// Returns `part` as a fraction of `whole`, rounded down to a multiple of kGrain; at most 1.
double grains(double part, double whole) {
  return std::min(std::floor(part / whole * (1 - kRoundingUp) / kGrain) * kGrain, 1.0);
}

// Items that cannot share any of the bins of these ranks.
struct Cover {
  std::vector<std::uint32_t> items;
  std::vector<std::size_t> ranks;  // empty: the items cannot share any single bin
};

// The assignment ILP: x[i, b] = 1 if item i is in bin b; C is at least every rank's load.
//   minimise C < 1;  sum_b x[i, b] = 1;  sum_i x[i, b] >= min_items;  sum_i size[i, r] x[i, b] <=
//   1; slowdown_b · sum_{b in rank} sum_i cost[i, k] x[i, b] <= C for each rank and dimension;
//   sum_{i in cover} x[i, b] < |cover| for each cover.
// Loads are fractions of the makespan to be beaten, sizes are fractions of their caps. If all ranks
// are equal, symmetry is broken by keeping the j-th item (largest first) out of ranks beyond j.
class Model {
 public:
  Model(const Partition& problem, std::size_t bins_per_rank, double below)
      : problem_(problem), per_rank_(bins_per_rank), lp_(glp_create_prob()) {
    add_columns();
    add_item_rows();
    add_bin_rows();
    add_load_rows(below);
  }

  void add(const Cover& cover) {
    const auto most = static_cast<double>(cover.items.size() - 1);
    for (std::size_t bin = 0; cover.ranks.empty() && bin < problem_.bins; ++bin) {
      start_row();
      for (const std::uint32_t item : cover.items) term(column(item, bin), 1);
      end_row(GLP_UP, 0, most);
    }
    for (const std::size_t rank : cover.ranks) {
      start_row();
      for (std::size_t bin = rank * per_rank_; bin < (rank + 1) * per_rank_; ++bin) {
        for (const std::uint32_t item : cover.items) term(column(item, bin), 1);
      }
      end_row(GLP_UP, 0, most);
    }
  }

  // Solves the model. `finished` in the answer means that it is the model's optimum, or that the
  // model has no solution.
  ExactAnswer solve(NodeBudget& budget) {
    glp_smcp simplex;
    glp_init_smcp(&simplex);
    simplex.msg_lev = GLP_MSG_OFF;
    glp_std_basis(lp_.get());
    if (glp_simplex(lp_.get(), &simplex) != 0) return {};
    if (glp_get_status(lp_.get()) == GLP_NOFEAS) return {.bins = {}, .finished = true};
    if (glp_get_status(lp_.get()) != GLP_OPT) return {};
    glp_iocp options;
    glp_init_iocp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.cb_func = count_node;
    options.cb_info = &budget;
    const int failure = glp_intopt(lp_.get(), &options);
    const int status = glp_mip_status(lp_.get());
    ExactAnswer answer;
    if (status == GLP_OPT || status == GLP_FEAS) answer.bins = read();
    answer.finished = failure == 0 && !budget.spent && (status == GLP_OPT || status == GLP_NOFEAS);
    return answer;
  }

 private:
  int column(std::size_t item, std::size_t bin) const {
    return static_cast<int>(2 + item * problem_.bins + bin);
  }

  void add_columns() {
    glp_set_obj_dir(lp_.get(), GLP_MIN);
    glp_add_cols(lp_.get(), column(problem_.items(), 0) - 1);
    // A load below the limit is at least one grain below it after rounding down.
    glp_set_col_bnds(lp_.get(), 1, GLP_DB, 0, 1 - kGrain);
    glp_set_obj_coef(lp_.get(), 1, 1);
    const auto size_of = [&](std::size_t item) {
      const double* cost = problem_.cost(item);
      return *std::max_element(cost, cost + problem_.dimensions);
    };
    std::vector<std::size_t> order(problem_.items());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return size_of(a) > size_of(b); });
    for (std::size_t position = 0; position < order.size(); ++position) {
      for (std::size_t bin = 0; bin < problem_.bins; ++bin) {
        const int x = column(order[position], bin);
        glp_set_col_kind(lp_.get(), x, GLP_BV);
        if (problem_.slowdowns.empty() && bin / per_rank_ > position) {
          glp_set_col_bnds(lp_.get(), x, GLP_FX, 0, 0);
        }
      }
    }
  }

  void start_row() {
    columns_.assign(1, 0);
    values_.assign(1, 0);
  }
  void term(int column_index, double value) {
    if (value == 0) return;
    columns_.push_back(column_index);
    values_.push_back(value);
  }
  void end_row(int type, double low, double high) {
    const int row = glp_add_rows(lp_.get(), 1);
    glp_set_row_bnds(lp_.get(), row, type, low, high);
    glp_set_mat_row(lp_.get(), row, static_cast<int>(columns_.size()) - 1, columns_.data(),
                    values_.data());
  }

  void add_item_rows() {
    for (std::size_t item = 0; item < problem_.items(); ++item) {
      start_row();
      for (std::size_t bin = 0; bin < problem_.bins; ++bin) term(column(item, bin), 1);
      end_row(GLP_FX, 1, 1);
    }
  }

  void add_bin_rows() {
    for (std::size_t bin = 0; bin < problem_.bins; ++bin) {
      start_row();
      for (std::size_t item = 0; item < problem_.items(); ++item) term(column(item, bin), 1);
      end_row(GLP_LO, static_cast<double>(problem_.min_items), 0);
      for (std::size_t r = 0; r < problem_.resources; ++r) {
        start_row();
        const auto cap = static_cast<double>(std::max<std::int64_t>(problem_.caps[r], 1));
        for (std::size_t item = 0; item < problem_.items(); ++item) {
          term(column(item, bin), grains(static_cast<double>(problem_.size(item, r)), cap));
        }
        end_row(GLP_UP, 0, 1);
      }
    }
  }

  void add_load_rows(double below) {
    for (std::size_t rank = 0; rank < problem_.bins / per_rank_; ++rank) {
      for (std::size_t k = 0; k < problem_.dimensions; ++k) {
        start_row();
        term(1, -1);
        for (std::size_t bin = rank * per_rank_; bin < (rank + 1) * per_rank_; ++bin) {
          for (std::size_t item = 0; item < problem_.items(); ++item) {
            term(column(item, bin), grains(problem_.slowdown(bin) * problem_.cost(item)[k], below));
          }
        }
        end_row(GLP_UP, 0, 0);
      }
    }
  }

  Bins read() const {
    Bins bins(problem_.bins);
    for (std::size_t item = 0; item < problem_.items(); ++item) {
      for (std::size_t bin = 0; bin < problem_.bins; ++bin) {
        if (glp_mip_col_val(lp_.get(), column(item, bin)) > 0.5) {
          bins[bin].push_back(static_cast<std::uint32_t>(item));
        }
      }
    }
    return bins;
  }

  const Partition& problem_;
  std::size_t per_rank_;
  std::unique_ptr<glp_prob, DeleteProblem> lp_;
  std::vector<int> columns_;  // columns of the row under construction; GLPK counts from one
  std::vector<double> values_;
};

// Finds the constraints that a plan violates, in the balancer's own numbers.
class Check {
 public:
  Check(const Partition& problem, std::size_t bins_per_rank, double below)
      : problem_(problem), per_rank_(bins_per_rank), limit_(below * (1 - kSumRounding)) {}

  std::vector<Cover> broken_by(const Bins& bins) const {
    std::vector<Cover> covers;
    for (std::size_t first = 0; first < bins.size(); first += per_rank_) {
      std::vector<std::uint32_t> items;
      for (std::size_t b = first; b < first + per_rank_; ++b) {
        items.insert(items.end(), bins[b].begin(), bins[b].end());
        if (too_large(bins[b])) {
          covers.push_back(
              {smallest(bins[b], [&](const auto& set) { return too_large(set); }), {}});
        }
      }
      std::sort(items.begin(), items.end());
      const auto slow = [&](const auto& set) { return too_slow(set, problem_.slowdown(first)); };
      if (slow(items)) covers.push_back(of_ranks(smallest(items, slow)));
    }
    return covers;
  }

 private:
  using Items = std::vector<std::uint32_t>;

  bool too_large(const Items& items) const {
    Sizes held{};
    for (const std::uint32_t item : items) {
      if (!problem_.has_room(held, item)) return true;
      problem_.add(item, held);
    }
    return false;
  }

  bool too_slow(const Items& items, double slowdown) const {
    for (std::size_t k = 0; k < problem_.dimensions; ++k) {
      double load = 0;
      for (const std::uint32_t item : items) load += problem_.cost(item)[k];
      if (slowdown * load >= limit_) return true;
    }
    return false;
  }

  // Reduces the set to as few items as still violate the limit: such a row excludes more plans.
  template <typename Breaks>
  static Items smallest(Items items, const Breaks& breaks) {
    for (std::size_t i = items.size(); i-- > 0;) {
      Items fewer = items;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (breaks(fewer)) items = std::move(fewer);
    }
    return items;
  }

  Cover of_ranks(Items items) const {
    Cover cover{std::move(items), {}};
    for (std::size_t rank = 0; rank < problem_.bins / per_rank_; ++rank) {
      if (too_slow(cover.items, problem_.slowdown(rank * per_rank_))) cover.ranks.push_back(rank);
    }
    return cover;
  }

  const Partition& problem_;
  std::size_t per_rank_;
  double limit_;
};

// Returns an upper bound on the makespan of any plan.
double ample_makespan(const Partition& problem) {
  double sum = 0;
  for (const double cost : problem.costs) sum += cost;
  double slowest = 1;
  for (const double slowdown : problem.slowdowns) slowest = std::max(slowest, slowdown);
  return std::max(2 * sum * slowest, std::numeric_limits<double>::min());
}

}  // namespace

ExactAnswer solve_assignment_ilp(const Partition& problem, const ExactLimits& limits) {
  const Environment environment;
  NodeBudget budget{.nodes = limits.nodes};
  double below = limits.below > 0 ? limits.below : ample_makespan(problem);
  ExactAnswer best;
  auto model = std::make_unique<Model>(problem, limits.bins_per_rank, below);
  for (int round = 0; round < kMostRounds && !budget.spent; ++round) {
    ExactAnswer answer = model->solve(budget);
    if (!answer.bins) {
      best.finished = answer.finished;
      return best;
    }
    const auto covers = Check(problem, limits.bins_per_rank, below).broken_by(*answer.bins);
    for (const Cover& cover : covers) model->add(cover);
    if (!covers.empty()) continue;
    if (!is_feasible(problem, *answer.bins)) return best;
    below = grouped_makespan(problem, limits.bins_per_rank, *answer.bins);
    best.bins = std::move(answer.bins);
    if (below <= 0) return {.bins = std::move(best.bins), .finished = true};
    model = std::make_unique<Model>(problem, limits.bins_per_rank, below);
  }
  return best;
}

}  // namespace isocost
