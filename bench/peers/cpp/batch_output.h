#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

/// Takes a batch where other trainers compute: a line of JSON on
/// standard output names its samples and their numbers of patches. The bytes of the patches follow
/// for the first batches, as many as the environment's BATCHES_WITH_BYTES says.
class BatchOutput {
 public:
  void add(const at::Tensor& patches, const std::vector<std::int64_t>& samples,
           const std::vector<std::int64_t>& lengths) {
    std::printf("{\"samples\": [%s], \"patches\": [%s], \"bytes\": %lld}\n", join(samples).c_str(),
                join(lengths).c_str(),
                with_bytes_ > 0 ? static_cast<long long>(patches.nbytes()) : 0);
    if (with_bytes_ > 0) {
      const at::Tensor rows = patches.contiguous();
      std::fwrite(rows.data_ptr(), 1, rows.nbytes(), stdout);
      --with_bytes_;
    }
    std::fflush(stdout);
  }

 private:
  static std::string join(const std::vector<std::int64_t>& numbers) {
    std::string text;
    for (const std::int64_t number : numbers) {
      text += (text.empty() ? "" : ", ") + std::to_string(number);
    }
    return text;
  }
  static int batches_with_bytes() {
    const char* given = std::getenv("BATCHES_WITH_BYTES");
    return given == nullptr ? 0 : std::atoi(given);
  }

  int with_bytes_ = batches_with_bytes();
};
