#include "examples/pipeline_trainer/tensor_file.h"

#include <exception>
#include <fstream>
#include <iterator>

#include "base/output_file.h"

namespace isocost {

Status write_tensors(const std::filesystem::path& file,
                     const std::vector<std::pair<std::string, torch::Tensor>>& tensors) {
  c10::Dict<std::string, at::Tensor> dictionary;
  for (const auto& [name, tensor] : tensors) dictionary.insert(name, tensor.detach().clone());
  const std::vector<char> bytes = torch::pickle_save(dictionary);
  return replace_file(file, {bytes.data(), bytes.size()});
}

Result<std::map<std::string, torch::Tensor>> read_tensors(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)),
                                std::istreambuf_iterator<char>());
  if (!in.is_open() || in.bad()) {
    return Error(ErrorCode::kNotFound, file.string() + ": cannot be read");
  }
  try {
    std::map<std::string, torch::Tensor> tensors;
    const auto dictionary = torch::pickle_load(bytes).toGenericDict();
    for (const auto& item : dictionary) {
      tensors.emplace(item.key().toStringRef(), item.value().toTensor());
    }
    return tensors;
  } catch (const std::exception&) {  // thrown by libtorch for bytes that it cannot read
    return Error(ErrorCode::kCorrupt, file.string() + ": not a file of saved tensors");
  }
}

}  // namespace isocost
