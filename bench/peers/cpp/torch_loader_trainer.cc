// A trainer with Isocost: torch_loader_trainer ENDPOINT takes the patches that a node delivers.
#include <isocost/torch_loader.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "bench/peers/cpp/batch_output.h"

int main(int argc, char** argv) try {
  isocost::LoaderOptions options;
  if (argc > 1) options.endpoint = argv[1];
  isocost::TorchLoader loader(options);
  BatchOutput output;
  for (auto& epoch : loader.epochs()) {
    for (const auto& microbatch : epoch) {
      std::vector<std::int64_t> samples, lengths;
      for (std::size_t i = 0; i < microbatch.header.samples.size(); ++i) {
        samples.push_back(static_cast<std::int64_t>(microbatch.header.samples[i].id));
        lengths.push_back(microbatch.rows("vision_patches", i).size(0));
      }
      output.add(microbatch["vision_patches"], samples, lengths);
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "torch_loader_trainer: %s\n", error.what());
  return 1;
}
