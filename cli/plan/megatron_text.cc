#include "cli/plan/megatron_text.h"

#include <cstddef>

namespace isocost::cli {
namespace {

std::string flag(const std::string& name, std::size_t value) {
  return "  --" + name + " " + std::to_string(value) + "\n";
}

std::string recompute_flags(const Layout& layout) {
  std::string flags;
  const Recompute of_llm = layout.llm_training.recompute.front();  // of all stages
  if (of_llm == Recompute::kFull) {
    flags = "  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1\n";
  } else if (of_llm == Recompute::kSelective) {
    flags = "  --recompute-granularity selective --recompute-modules mlp\n";
  }
  return flags;
}

std::string freeze_flags(const Layout& layout) {
  std::string flags;
  if (layout.encoder_training.weights == TrainedWeights::kNone) flags += "  --freeze-ViT\n";
  if (layout.llm_training.weights == TrainedWeights::kNone) flags += "  --freeze-LM\n";
  return flags;
}

// Transfers overlap with passes, as the search assumes.
std::string optimizer_flags(const Layout& layout) {
  if (layout.replicated_optimizer) return "  --overlap-grad-reduce\n";
  return "  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather\n";
}

// Megatron-LM checks this before it starts.
std::string tensor_settings(const ModuleDegrees& degrees) {
  if (degrees.tensor == 1) return "";
  return "export CUDA_DEVICE_MAX_CONNECTIONS=1  # with tensor ranks, on GPUs before Blackwell\n";
}

}  // namespace

std::string megatron_text(const Layout& layout, const std::string& version,
                          const std::string& layout_file) {
  const ModuleDegrees& degrees = layout.llm;
  return "# Flags of Megatron-LM's examples/multimodal/train.py (megatron-core " + version +
         "), written by isocost plan for the\n# layout in " + layout_file +
         ". Source this file, and start as many processes as ISOCOST_WORLD_SIZE says:\n"
         "#   torchrun ... examples/multimodal/train.py \"${ISOCOST_ARGS[@]}\" "
         "MODEL_AND_DATA_ARGS\n"
         "# A microbatch is one packed row, so --global-batch-size counts rows, not samples. "
         "Data-parallel size: " +
         std::to_string(degrees.data) + ".\n" + tensor_settings(degrees) +
         "ISOCOST_WORLD_SIZE=" + std::to_string(layout.ranks()) + "\nISOCOST_ARGS=(\n" +
         flag("tensor-model-parallel-size", degrees.tensor) +
         flag("pipeline-model-parallel-size", degrees.pipeline) + flag("micro-batch-size", 1) +
         flag("global-batch-size", layout.microbatches * degrees.data) + recompute_flags(layout) +
         freeze_flags(layout) + optimizer_flags(layout) + ")\n";
}

}  // namespace isocost::cli
