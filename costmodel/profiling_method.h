#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "base/units.h"
#include "costmodel/profile.h"

namespace isocost {

/// A part of a module, measured in addition to the whole module.
struct ProfilingCut {
  std::int64_t tensor = 1;                  ///< Tensor ranks that share the module's layers.
  std::optional<std::int64_t> layers = {};  ///< Layers that run; empty: all.
};

/// One module to measure. A unit is a patch, an audio position or a token.
struct ProfilingOptions {
  std::string module = {};      ///< Name of the module, for messages.
  std::int64_t shortest = 1;    ///< Units of the shortest sequence.
  std::int64_t longest = 1;     ///< Units of the longest sequence.
  std::int64_t most_units = 1;  ///< Units of the largest microbatch.
  std::int64_t multiple = 1;    ///< Every length is a multiple of this.
  std::int64_t layers = 0;      ///< Layers of the whole module; 0: unknown.
  std::vector<ProfilingCut> cuts = {};
  /// Time for the whole module and its cuts. The loads of the first grid and of the cuts run even
  /// if it is too short for them.
  Seconds budget{60};

  /// Checks the values. Errors: kInvalidArgument, naming the module, the field and its value.
  Status validate() const;
};

enum class ProfilingRunKind : std::uint8_t {
  kWarmUp,      ///< Run forward and backward once; nothing is measured.
  kPeakMemory,  ///< Run again, and measure peak memory.
  kTimed,       ///< Run once, and measure the seconds of forward and of backward.
};

/// One run that the driver makes: a microbatch of equally long sequences, forward and backward.
struct ProfilingRun {
  ProfilingRunKind kind = ProfilingRunKind::kWarmUp;
  std::int64_t length = 0;     ///< Units of each sequence.
  std::int64_t sequences = 0;  ///< Sequences in the microbatch.
  /// Index in ProfilingOptions::cuts; empty: the whole module.
  std::optional<std::size_t> cut = {};
  bool new_inputs =
      false;  ///< Whether the load differs from the last run's, so that its inputs must be made.

  bool operator==(const ProfilingRun&) const = default;
};

/// Measurements of one run by the driver.
struct ProfilingResult {
  Seconds elapsed{};   ///< Time since the driver began with this module, by a host clock.
  Seconds forward{};   ///< Time of the forward pass in a timed run.
  Seconds backward{};  ///< Time of the backward pass in a timed run; 0 for a module that is not
                       ///< trained.
  std::int64_t peak_bytes = 0;  ///< Peak of a kPeakMemory run above what was allocated before it.
};

/// The method by which model profiles are measured: which loads run and how often, which
/// measurements are refused, and when the budget is spent. docs/profiling_method.md describes it.
/// It holds no clock and no tensors. A driver does what `next` says, one run after another:
///
///     while (const auto run = method.next()) {
///       // Make inputs where run->new_inputs; run; measure.
///       ISOCOST_TRY(method.record(result));  // or record_out_of_memory
///     }
///
/// Equal records lead to equal runs, so processes that measure together stay in step if all of them
/// record what one of them measured. Single-thread.
class ProfilingMethod {
 public:
  /// Creates the method. Errors: those of ProfilingOptions::validate, and kInvalidArgument if no
  /// multiple of `multiple` near the lengths fits into `most_units`.
  static Result<ProfilingMethod> create(ProfilingOptions options);

  /// Returns the run to make now, the same one until it is recorded; empty when the module is
  /// measured or an error was returned.
  std::optional<ProfilingRun> next() const;

  /// Records the run that `next` names. A timed run whose seconds are negative, not finite or
  /// zero is left out and repeated. Errors: kInvalidArgument if a load had more than three such
  /// runs, or if no run is due.
  Status record(const ProfilingResult& result);

  /// Records that the run that `next` names ran out of memory: its load is left out, and larger
  /// loads of the whole module are not tried. `elapsed` is as in ProfilingResult. Errors:
  /// kResourceExhausted if no load has run before, kInvalidArgument if no run is due.
  Status record_out_of_memory(Seconds elapsed);

  /// Returns what happened since the last call, as lines for people: one for each load.
  std::vector<std::string> take_progress();

  /// Returns the measured loads of the whole module, ordered by length and sequences once `next` is
  /// empty; no two contradict each other then.
  const std::vector<ProfilePoint>& points() const { return points_; }
  /// Returns one measurement for each of the options' cuts, in their order.
  const std::vector<ProfileCut>& cuts() const { return cuts_; }
  /// Returns the smallest load that ran out of memory; empty: none did.
  const ModuleLoad& out_of_memory() const { return out_of_memory_; }

 private:
  struct Microbatch {
    std::int64_t length = 0;
    std::int64_t sequences = 0;
    ModuleLoad load() const;
  };
  struct Measurement {
    Microbatch microbatch;
    double end_s = 0;  // end of its share of the budget
    ProfilingRunKind due = ProfilingRunKind::kWarmUp;
    std::int64_t peak_bytes = 0;
    int unusable = 0;
    std::vector<double> forward_s;
    std::vector<double> backward_s;
    std::vector<double> total_s;
  };
  enum class Stage : std::uint8_t { kGrid, kHalves, kBends, kContradictions, kCuts, kDone };

  explicit ProfilingMethod(ProfilingOptions options);
  std::vector<Microbatch> first_grid() const;
  std::int64_t rounded(double length) const;
  void advance();
  void next_stage();
  void next_cut();
  void queue_halves();
  bool queue_bend();
  void queue_contradicted();
  std::optional<std::int64_t> sharpest_bend() const;
  bool is_beyond_memory(const Microbatch& microbatch) const;
  bool has(const ModuleLoad& load) const;
  std::vector<ProfilePoint> points_of(std::int64_t length) const;
  double left_s() const;
  double share_s() const;
  Status record_seconds(Measurement& measured, const ProfilingResult& result);
  bool is_settled(const Measurement& measured) const;
  void finish(Measurement& measured);
  Status fail(Error error);
  void say(const Microbatch& microbatch, const std::string& what);

  ProfilingOptions options_;
  Stage stage_ = Stage::kGrid;
  double elapsed_s_ = 0;
  double for_cuts_s_ = 0;
  double cut_load_share_s_ = 0;              // for each load of the present cut
  std::deque<Microbatch> waiting_;           // loads of the present stage
  std::optional<Measurement> current_;       // empty when done
  std::optional<std::int64_t> bend_length_;  // length that was measured last for a bend
  std::vector<ProfilePoint> points_;
  std::vector<ProfileCut> cuts_;
  ModuleLoad out_of_memory_;
  std::vector<std::string> progress_;
};

/// Bytes that a driver on a CPU overwrites before each half of a run: in training other modules run
/// in between, so a module finds its weights and activations in memory and not in the caches. This
/// exceeds the last-level caches of many servers.
inline constexpr std::int64_t kOverwrittenCacheBytes = std::int64_t{128} << 20;

/// Returns whether a failure's message says that memory ran out, in the words of torch's
/// allocators, cuBLAS or cuDNN.
bool says_out_of_memory(std::string_view message);

}  // namespace isocost
