// Makes the runs that costmodel/profiling_method.h asks for, and measures them.

#include "trainer_adapter/torch/profiler.h"

#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include <cstddef>
#include <new>
#include <utility>

#include "costmodel/profiling_method.h"
#include "trainer_adapter/torch/internal/peak_memory.h"

namespace isocost {
namespace {

using Clock = std::chrono::steady_clock;

ProfilingOptions method_options(const std::string& name, const ProfiledModule& module,
                                const ProfilerOptions& options) {
  ProfilingOptions limits{.module = name,
                          .shortest = module.shortest,
                          .longest = module.longest,
                          .most_units = module.most_units,
                          .multiple = module.multiple,
                          .layers = module.architecture ? module.architecture->layers : 0,
                          .budget = options.budget};
  for (const ProfiledCut& cut : module.cuts) {
    ProfilingCut& own = limits.cuts.emplace_back(ProfilingCut{.tensor = cut.tensor});
    if (cut.layers != 0) own.layers = cut.layers;
  }
  return limits;
}

void overwrite_caches() {
  static thread_local std::vector<std::int64_t> other(static_cast<std::size_t>(
      kOverwrittenCacheBytes / static_cast<std::int64_t>(sizeof(std::int64_t))));
  for (std::int64_t& value : other) ++value;
}

class Driver {
 public:
  Driver(const ProfiledModule& module, const ProfilerOptions& options)
      : module_(module), options_(options) {}

  Status run(ProfilingMethod& method) {
    while (const std::optional<ProfilingRun> run = method.next()) {
      std::optional<ProfilingResult> result = try_measure(*run);
      const Seconds elapsed = agreed(Clock::now() - start_);
      if (result) {
        result->elapsed = elapsed;
        ISOCOST_TRY(method.record(*result));
      } else {
        ISOCOST_TRY(method.record_out_of_memory(elapsed));
      }
      for (const std::string& line : method.take_progress()) {
        if (options_.progress) options_.progress(line);
      }
    }
    return {};
  }

 private:
  // Runs and measures; returns nothing if memory runs out.
  std::optional<ProfilingResult> try_measure(const ProfilingRun& run) {
    try {
      return measure(run);
    } catch (const std::bad_alloc&) {
      return std::nullopt;
    } catch (const c10::Error& error) {
      if (!says_out_of_memory(error.what())) throw;
      return std::nullopt;
    }
  }

  ProfilingResult measure(const ProfilingRun& run) {
    if (run.new_inputs) {
      forward_ = nullptr;  // frees the last inputs before the next ones are made
      const std::vector<std::int64_t> lengths(static_cast<std::size_t>(run.sequences), run.length);
      forward_ = (run.cut ? module_.cuts[*run.cut].prepare : module_.prepare)(lengths);
    }
    if (run.kind == ProfilingRunKind::kPeakMemory) {
      const PeakMemory memory;
      run_once(run);
      const auto peak = static_cast<double>(memory.bytes());
      return {.peak_bytes = static_cast<std::int64_t>(agreed(peak))};
    }
    ProfilingResult result = run_once(run);
    if (run.kind == ProfilingRunKind::kWarmUp) return {};
    result.forward = agreed(result.forward);
    result.backward = agreed(result.backward);
    return result;
  }

  ProfilingResult run_once(const ProfilingRun& run) {
    const bool overwrites = run.kind == ProfilingRunKind::kTimed && !on_gpu_;
    if (overwrites) overwrite_caches();
    const auto start = Clock::now();
    const at::Tensor output = forward_();
    on_gpu_ = output.is_cuda();
    if (on_gpu_) torch::cuda::synchronize();
    ProfilingResult result{.forward = Clock::now() - start};
    if (!output.requires_grad()) return result;
    if (overwrites) overwrite_caches();
    const auto middle = Clock::now();
    output.sum().backward();
    if (on_gpu_) torch::cuda::synchronize();
    result.backward = Clock::now() - middle;
    return result;
  }

  double agreed(double value) const { return options_.agree ? options_.agree(value) : value; }
  Seconds agreed(Seconds value) const { return Seconds(agreed(value.count())); }

  const ProfiledModule& module_;
  const ProfilerOptions& options_;
  Clock::time_point start_ = Clock::now();
  ProfiledForward forward_;
  bool on_gpu_ = false;  // where the last output was; caches are not overwritten there, since
                         // weights are many times their size
};

}  // namespace

Result<ModuleProfile> profile_module(const std::string& name, const ProfiledModule& module,
                                     const ProfilerOptions& options) {
  Result<ProfilingMethod> method = ProfilingMethod::create(method_options(name, module, options));
  if (!method) return std::move(method).error().with_context("profile_module");
  ISOCOST_TRY_CONTEXT(Driver(module, options).run(*method), "profile_module");
  return ModuleProfile{.coefficients = fit_coefficients(method->points()),
                       .points = method->points(),
                       .out_of_memory = method->out_of_memory(),
                       .architecture = module.architecture,
                       .cuts = method->cuts(),
                       .forward_share = {}};
}

}  // namespace isocost
