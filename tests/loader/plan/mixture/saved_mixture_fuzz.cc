// Whatever the bytes: a mixture that is written and read back as itself and draws full batches, or
// an error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "loader/plan/mixture/mixture_edit.h"
#include "loader/plan/mixture/saved_mixture.h"

namespace {

// A mixture of few steps, so that each input takes little time.
bool is_short(const isocost::MixtureOptions& options) {
  std::uint64_t last = options.steps;
  for (const isocost::MixtureSource& source : options.sources) {
    for (const isocost::Breakpoint& point : source.schedule.points)
      last = std::max(last, point.step);
    const std::uint64_t epochs = std::max<std::uint64_t>(source.epochs, 1);
    if (source.size > 100'000 || epochs > 100'000) return false;
    last = std::max(last,
                    source.size * epochs / std::max<std::uint64_t>(options.global_batch_size, 1));
  }
  return last < 5000;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto read = isocost::mixture_from_json({reinterpret_cast<const char*>(data), size});
  if (!read) return 0;
  const auto written = isocost::mixture_json(*read);
  if (!written) return 0;
  const auto again = isocost::mixture_from_json(*written);
  if (!again || !(*again == *read)) std::abort();
  if (!is_short(*read)) return 0;
  const auto mixture = isocost::Mixture::create(*read);
  if (!mixture) return 0;
  const std::uint64_t length = std::min<std::uint64_t>((*mixture)->length().value_or(100), 100);
  for (std::uint64_t position = 0; position < length; ++position) {
    const std::uint64_t samples = (*mixture)->draws(position).size();
    if (samples == 0 || samples > read->global_batch_size) std::abort();
  }
  if (length > 0 && !isocost::continued_mixture(*read, *read, length / 2)) std::abort();
  return 0;
}
