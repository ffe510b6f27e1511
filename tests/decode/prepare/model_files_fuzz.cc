// Any bytes as the files of a model's directory, config.json up to the first zero byte and
// preprocessor_config.json after it: an error, or a recipe that its description makes again and
// that plans pictures within its limits.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "decode/recipe.h"
#include "tests/support/memory_scratch.h"

namespace {

void write(const std::filesystem::path& file, std::string_view text) {
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto scratch = isocost::memory_scratch("isocost-fuzz");
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = std::min(bytes.find('\0'), size);
  write(scratch / "config.json", bytes.substr(0, zero));
  write(scratch / "preprocessor_config.json", bytes.substr(std::min(zero + 1, size)));
  const auto recipe =
      isocost::Recipe::create(isocost::ModelRecipeOptions{.directory = scratch.path()});
  if (!recipe) return 0;
  const auto again = isocost::Recipe::parse(recipe->description());
  if (!again || again->fingerprint() != recipe->fingerprint()) std::abort();
  isocost::SampleShape sample;
  sample.parts.resize(2);
  sample.parts[0].format = isocost::MediaFormat::kTokens;
  sample.parts[1].modality = isocost::Modality::kImage;
  for (const auto& [width, height] :
       {std::pair(1, 1), {8000, 6000}, {1, 200}, {1 << 20, 1 << 20}}) {
    sample.parts[1].width = width;
    sample.parts[1].height = height;
    const auto load = recipe->load(sample);
    if (load && load->tensor_bytes <= 0) std::abort();
    if (load && !recipe->working_set_bytes(sample)) std::abort();
  }
  return 0;
}
