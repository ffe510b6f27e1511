#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/load.h"
#include "base/tensor.h"

namespace isocost {

/// Meaning of a tensor for its module. A module has at most one tensor of each role.
enum class TensorRole : std::uint8_t {
  kRows,         ///< Media for the encoder: one row per patch or log-mel frame.
  kGrids,        ///< Rows and columns of patches of each picture.
  kMedia,        ///< Kind of each image or video.
  kIds,          ///< Token ids.
  kLabels,       ///< The token at each position, or kIgnoredLabel if it is not to be predicted.
  kPositions,    ///< Position of each token within its sample.
  kRope,         ///< Time, row and column of each token, for M-RoPE.
  kTurnWeights,  ///< At each token, the weight of its turn; for samples whose turns have weights.
  kLossWeights,  ///< Weight at each token: the sample's times the turn's.
  kLengths,      ///< Rows of each sequence: an image, a window or a packed sample.
  kCuSeqlens,    ///< Running sums of the lengths, from 0.
};

/// Place where a tensor is computed.
enum class TensorSource : std::uint8_t {
  kRecipe,    ///< On the node, from the sample's bytes; it crosses the wire.
  kAssembly,  ///< In the client, from tensors of the recipe.
};

/// Pipeline stages of a layout that read a tensor. Without a layout every rank reads all.
enum class TensorReader : std::uint8_t {
  kMediaEmbedding,  ///< The encoder's first stage.
  kTokenEmbedding,  ///< The LLM's first stage.
  kPrediction,      ///< The LLM's last stage.
  kEveryStage,      ///< Every stage that computes a part of the module.
};

/// Labels of positions that do not count in the loss.
inline constexpr std::int64_t kIgnoredLabel = -100;

/// A row width that differs between recipes.
inline constexpr std::int64_t kOfRecipe = -1;

struct TensorEntry {
  CostModule module;
  TensorRole role;
  std::string_view name;  ///< Name on the wire and in every microbatch: "<module>.<tensor>".
  DType dtype;
  /// Values of a row, the second dimension; 0: the tensor has only one dimension; kOfRecipe: the
  /// recipe determines it.
  std::int64_t row_width;
  TensorSource source;
  TensorReader reader;

  /// Returns whether it has one row per patch, frame or token, so that `<module>.lengths` divides
  /// it into sequences. Weights of turns are excluded, since only some samples have them.
  constexpr bool is_per_unit() const {
    return role != TensorRole::kGrids && role != TensorRole::kMedia &&
           role != TensorRole::kTurnWeights && role != TensorRole::kLengths &&
           role != TensorRole::kCuSeqlens;
  }
  /// Returns the shape of this tensor with `rows` rows, of `width` values if it has a second
  /// dimension.
  std::vector<std::int64_t> shape(std::int64_t rows, std::int64_t width) const;
  /// Returns the shape of a tensor whose row width is known.
  std::vector<std::int64_t> shape(std::int64_t rows) const { return shape(rows, row_width); }
};

/// Every tensor that a microbatch may have. Assembly multiplies weights of turns into those of the
/// loss. The recipe, delivery, assembly and the Python names all read this table; decode/recipe.h
/// describes its values.
inline constexpr std::array kTensorSchema = {
    TensorEntry{CostModule::kVision, TensorRole::kRows, "vision.patches", DType::kUInt8, kOfRecipe,
                TensorSource::kRecipe, TensorReader::kMediaEmbedding},
    TensorEntry{CostModule::kVision, TensorRole::kGrids, "vision.grids", DType::kInt32, 2,
                TensorSource::kRecipe, TensorReader::kEveryStage},
    TensorEntry{CostModule::kVision, TensorRole::kMedia, "vision.media", DType::kInt32, 4,
                TensorSource::kRecipe, TensorReader::kEveryStage},
    TensorEntry{CostModule::kVision, TensorRole::kLengths, "vision.lengths", DType::kInt32, 0,
                TensorSource::kRecipe, TensorReader::kEveryStage},
    TensorEntry{CostModule::kVision, TensorRole::kCuSeqlens, "vision.cu_seqlens", DType::kInt32, 0,
                TensorSource::kAssembly, TensorReader::kEveryStage},
    TensorEntry{CostModule::kAudio, TensorRole::kRows, "audio.mel", DType::kFloat32, kOfRecipe,
                TensorSource::kRecipe, TensorReader::kMediaEmbedding},
    TensorEntry{CostModule::kAudio, TensorRole::kLengths, "audio.lengths", DType::kInt32, 0,
                TensorSource::kRecipe, TensorReader::kEveryStage},
    TensorEntry{CostModule::kAudio, TensorRole::kCuSeqlens, "audio.cu_seqlens", DType::kInt32, 0,
                TensorSource::kAssembly, TensorReader::kEveryStage},
    TensorEntry{CostModule::kLlm, TensorRole::kIds, "llm.input_ids", DType::kInt64, 0,
                TensorSource::kRecipe, TensorReader::kTokenEmbedding},
    TensorEntry{CostModule::kLlm, TensorRole::kLabels, "llm.labels", DType::kInt64, 0,
                TensorSource::kRecipe, TensorReader::kPrediction},
    TensorEntry{CostModule::kLlm, TensorRole::kPositions, "llm.position_ids", DType::kInt64, 0,
                TensorSource::kRecipe, TensorReader::kTokenEmbedding},
    TensorEntry{CostModule::kLlm, TensorRole::kRope, "llm.rope_positions", DType::kInt32, 3,
                TensorSource::kRecipe, TensorReader::kEveryStage},
    TensorEntry{CostModule::kLlm, TensorRole::kTurnWeights, "llm.turn_weights", DType::kFloat32, 0,
                TensorSource::kRecipe, TensorReader::kPrediction},
    TensorEntry{CostModule::kLlm, TensorRole::kLossWeights, "llm.loss_weights", DType::kFloat32, 0,
                TensorSource::kAssembly, TensorReader::kPrediction},
    TensorEntry{CostModule::kLlm, TensorRole::kLengths, "llm.lengths", DType::kInt32, 0,
                TensorSource::kRecipe, TensorReader::kEveryStage},
    TensorEntry{CostModule::kLlm, TensorRole::kCuSeqlens, "llm.cu_seqlens", DType::kInt32, 0,
                TensorSource::kAssembly, TensorReader::kEveryStage},
};

/// Returns the tensor of a role; null if the module has none.
constexpr const TensorEntry* find_tensor(CostModule module, TensorRole role) {
  for (const TensorEntry& entry : kTensorSchema) {
    if (entry.module == module && entry.role == role) return &entry;
  }
  return nullptr;
}

/// Returns the tensor of this name; null if there is none.
const TensorEntry* find_tensor(std::string_view name);

/// Returns the tensor of a module and role that are known when compiling; another pair does not
/// compile.
consteval const TensorEntry& tensor_entry(CostModule module, TensorRole role) {
  return *find_tensor(module, role);
}

/// Returns the name of a tensor as an argument of a Python function: the LLM's tensors without
/// their module ("llm.input_ids" is "input_ids"), others with it ("vision.patches" is
/// "vision_patches").
std::string argument_name(std::string_view name);

/// Returns the tensor of this name, which is one on the wire or an argument name; null if there is
/// none.
const TensorEntry* find_argument(std::string_view name);

/// Throws isocost::Exception (kInvalidArgument) if no tensor has this name, with the names that
/// there are.
void check_tensor_name(std::string_view name);

}  // namespace isocost
