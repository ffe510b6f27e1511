#include "examples/pipeline_trainer/tensor_file.h"

#include <exception>
#include <fstream>
#include <iterator>
#include <system_error>

namespace isocost {

Status write_tensors(const std::filesystem::path& file,
                     const std::vector<std::pair<std::string, torch::Tensor>>& tensors) {
  c10::Dict<std::string, at::Tensor> dictionary;
  for (const auto& [name, tensor] : tensors) dictionary.insert(name, tensor.detach().clone());
  const std::vector<char> bytes = torch::pickle_save(dictionary);
  std::filesystem::path part = file;
  part += ".part";
  std::ofstream out(part, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  std::error_code failed;
  if (out) std::filesystem::rename(part, file, failed);
  if (!out || failed) return Error(ErrorCode::kIo, "cannot write " + file.string());
  return {};
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
  } catch (const std::exception&) {  // what libtorch throws at bytes it cannot read
    return Error(ErrorCode::kCorrupt, file.string() + ": is no file of saved tensors");
  }
}

}  // namespace isocost
