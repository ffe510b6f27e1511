#include "examples/pipeline_trainer/stage.h"

#include <algorithm>

namespace isocost {

std::size_t receiver_at(const Layout& layout, LayoutModule module, std::size_t data,
                        std::size_t stage) {
  return receiver_of(layout, {.module = module, .data = data, .stage = stage}).value();
}

Timed::~Timed() {
  const auto now = std::chrono::steady_clock::now();
  seconds_ = std::max(seconds_, 0.0) + std::chrono::duration<double>(now - start_).count();
}

double total(const SecondsByModule& seconds) {
  double sum = 0;
  for (const double of_module : seconds) sum += std::max(of_module, 0.0);
  return sum;
}

}  // namespace isocost
