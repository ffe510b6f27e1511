#include "base/tensor_schema.h"

#include <algorithm>

namespace isocost {

std::vector<std::int64_t> TensorEntry::shape(std::int64_t rows, std::int64_t width) const {
  if (row_width == 0) return {rows};
  return {rows, width};
}

const TensorEntry* find_tensor(std::string_view name) {
  for (const TensorEntry& entry : kTensorSchema) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::string argument_name(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::string(name);
  if (name.substr(0, dot) == module_name(CostModule::kLlm))
    return std::string(name.substr(dot + 1));
  std::string argument(name);
  std::replace(argument.begin(), argument.end(), '.', '_');
  return argument;
}

const TensorEntry* find_argument(std::string_view name) {
  for (const TensorEntry& entry : kTensorSchema) {
    if (entry.name == name || argument_name(entry.name) == name) return &entry;
  }
  return nullptr;
}

void check_tensor_name(std::string_view name) {
  if (find_argument(name) != nullptr) return;
  std::string names;
  for (const TensorEntry& entry : kTensorSchema) {
    names += (names.empty() ? "" : ", ") + argument_name(entry.name);
  }
  throw_exception(Error(ErrorCode::kInvalidArgument,
                        "no tensor is called \"" + std::string(name) + "\"; there are " + names));
}

}  // namespace isocost
