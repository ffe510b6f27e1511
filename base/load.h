#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace isocost {

/// The parts of a multimodal model whose cost is predicted and measured separately.
enum class CostModule : std::uint8_t { kVision = 0, kAudio = 1, kLlm = 2 };
inline constexpr std::size_t kModules = 3;

/// Returns "vision", "audio" or "llm": the name in configuration, tensors, wire and JSON.
std::string_view module_name(CostModule module);
std::optional<CostModule> module_from_name(std::string_view name);

/// Input size of one module for a sample or, summed, for a microbatch. Attention runs within a
/// sequence (an image or a video frame, an audio window, a packed sample), hence the squares.
struct ModuleLoad {
  std::int64_t sequences = 0;      ///< Images and video frames; audio windows; packed samples.
  std::int64_t units = 0;          ///< 14-pixel patches; 20 ms audio positions; LLM tokens.
  std::int64_t units_squared = 0;  ///< Sum of units² over the sequences.

  void add_sequence(std::int64_t units_of_sequence) {
    sequences += 1;
    units += units_of_sequence;
    units_squared += units_of_sequence * units_of_sequence;
  }
  ModuleLoad& operator+=(const ModuleLoad& other) {
    sequences += other.sequences;
    units += other.units;
    units_squared += other.units_squared;
    return *this;
  }
  bool operator==(const ModuleLoad&) const = default;
};

/// Input size of a model for a sample. These integers follow from the sample's shape and the recipe
/// only, and are equal on every machine. Loads of samples add up to the load of their microbatch.
struct Load {
  std::array<ModuleLoad, kModules> modules;
  std::int64_t label_tokens = 0;  ///< Positions whose prediction counts in the loss.
  std::int64_t tensor_bytes = 0;  ///< Bytes of the decoded tensors, as delivered.

  ModuleLoad& operator[](CostModule module) { return modules[static_cast<std::size_t>(module)]; }
  const ModuleLoad& operator[](CostModule module) const {
    return modules[static_cast<std::size_t>(module)];
  }
  Load& operator+=(const Load& other);
  bool operator==(const Load&) const = default;
};

}  // namespace isocost
