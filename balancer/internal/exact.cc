#include "balancer/internal/exact.h"

#include <glpk.h>

#include <algorithm>
#include <memory>
#include <numeric>

namespace isocost {
namespace {

// GLPK keeps an environment per thread; ours goes when we go, another's stays.
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

// The assignment ILP: x[i, b] = 1 where item i lies in bin b; C is at least every rank's load.
//   minimise C;  sum_b x[i, b] = 1;  sum_i x[i, b] >= min_items;  sum_i bytes_i x[i, b] <= cap;
//   speed_b · sum_{b in rank} sum_i cost[i, k] x[i, b] <= C for each rank and dimension.
// Costs are scaled to a largest of one. Where ranks are alike, the j-th item (largest first) may be
// kept out of ranks beyond j.
class Model {
 public:
  Model(const Partition& problem, const ExactLimits& limits)
      : problem_(problem), limits_(limits), lp_(glp_create_prob()), order_(problem.items()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const auto size_of = [&](std::size_t item) {
      const double* cost = problem_.cost(item);
      return *std::max_element(cost, cost + problem_.dimensions);
    };
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return size_of(a) > size_of(b); });
    scale_ = 0;
    for (const double cost : problem_.costs) scale_ = std::max(scale_, cost);
    if (scale_ <= 0) scale_ = 1;
    add_columns();
    add_item_rows();
    add_bin_rows();
    add_load_rows();
  }

  ExactAnswer solve() {
    ExactAnswer answer;
    glp_smcp simplex;
    glp_init_smcp(&simplex);
    simplex.msg_lev = GLP_MSG_OFF;
    if (glp_simplex(lp_.get(), &simplex) != 0) return answer;
    if (glp_get_status(lp_.get()) == GLP_NOFEAS) {
      answer.finished = true;
      return answer;
    }
    if (glp_get_status(lp_.get()) != GLP_OPT) return answer;
    NodeBudget budget{.nodes = limits_.nodes};
    glp_iocp options;
    glp_init_iocp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.cb_func = count_node;
    options.cb_info = &budget;
    const int failure = glp_intopt(lp_.get(), &options);
    answer.finished = failure == 0 && !budget.spent;
    const int status = glp_mip_status(lp_.get());
    if (status == GLP_OPT || status == GLP_FEAS) read(answer);
    return answer;
  }

 private:
  int column(std::size_t item, std::size_t bin) const {
    return static_cast<int>(2 + item * problem_.bins + bin);
  }
  std::size_t ranks() const { return problem_.bins / limits_.bins_per_rank; }

  void add_columns() {
    glp_set_obj_dir(lp_.get(), GLP_MIN);
    glp_add_cols(lp_.get(), column(problem_.items(), 0) - 1);
    if (limits_.below > 0) {
      glp_set_col_bnds(lp_.get(), 1, GLP_DB, 0, limits_.below / scale_ * (1 - 1e-7));
    } else {
      glp_set_col_bnds(lp_.get(), 1, GLP_LO, 0, 0);
    }
    glp_set_obj_coef(lp_.get(), 1, 1);
    for (std::size_t position = 0; position < order_.size(); ++position) {
      for (std::size_t bin = 0; bin < problem_.bins; ++bin) {
        const int x = column(order_[position], bin);
        glp_set_col_kind(lp_.get(), x, GLP_BV);
        if (problem_.speeds.empty() && bin / limits_.bins_per_rank > position)
          glp_set_col_bnds(lp_.get(), x, GLP_FX, 0, 0);
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
      if (problem_.bytes.empty()) continue;
      start_row();
      const auto cap = static_cast<double>(std::max<std::int64_t>(problem_.bytes_cap, 1));
      for (std::size_t item = 0; item < problem_.items(); ++item) {
        term(column(item, bin), static_cast<double>(problem_.bytes[item]) / cap);
      }
      end_row(GLP_UP, 0, 1);
    }
  }

  void add_load_rows() {
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      for (std::size_t k = 0; k < problem_.dimensions; ++k) {
        start_row();
        term(1, -1);
        for (std::size_t i = 0; i < limits_.bins_per_rank; ++i) {
          const std::size_t bin = rank * limits_.bins_per_rank + i;
          for (std::size_t item = 0; item < problem_.items(); ++item) {
            term(column(item, bin), problem_.speed(bin) * (problem_.cost(item)[k] / scale_));
          }
        }
        end_row(GLP_UP, 0, 0);
      }
    }
  }

  // The solver works to 1e-7; a plan that breaks the cap by less is no plan, and then nothing is
  // proved either.
  void read(ExactAnswer& answer) const {
    Bins bins(problem_.bins);
    for (std::size_t item = 0; item < problem_.items(); ++item) {
      for (std::size_t bin = 0; bin < problem_.bins; ++bin) {
        if (glp_mip_col_val(lp_.get(), column(item, bin)) > 0.5) {
          bins[bin].push_back(static_cast<std::uint32_t>(item));
        }
      }
    }
    if (is_feasible(problem_, bins)) {
      answer.bins = std::move(bins);
    } else {
      answer.finished = false;
    }
  }

  const Partition& problem_;
  const ExactLimits& limits_;
  std::unique_ptr<glp_prob, DeleteProblem> lp_;
  std::vector<std::size_t> order_;  // items, largest first
  double scale_ = 1;
  std::vector<int> columns_;  // of the row under construction; GLPK counts from one
  std::vector<double> values_;
};

}  // namespace

ExactAnswer solve_exactly(const Partition& problem, const ExactLimits& limits) {
  const Environment environment;
  return Model(problem, limits).solve();
}

}  // namespace isocost
