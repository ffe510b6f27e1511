#include "base/load.h"

namespace isocost {
namespace {
constexpr std::array<std::string_view, kModules> kModuleNames = {"vision", "audio", "llm"};
}  // namespace

std::string_view module_name(CostModule module) {
  return kModuleNames.at(static_cast<std::size_t>(module));
}

std::optional<CostModule> module_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kModules; ++i) {
    if (kModuleNames.at(i) == name) return static_cast<CostModule>(i);
  }
  return std::nullopt;
}

Load& Load::operator+=(const Load& other) {
  for (std::size_t i = 0; i < kModules; ++i) modules.at(i) += other.modules.at(i);
  label_tokens += other.label_tokens;
  tensor_bytes += other.tensor_bytes;
  return *this;
}

}  // namespace isocost
