// For any bytes as the scores of an interrupted search: they are refused, or read, and what the
// search then writes back is read again with the same scores.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/scratch_directory.h"
#include "cli/plan/plan_checkpoint.h"
#include "tests/support/memory_scratch.h"

namespace {

using isocost::cli::PlanCheckpoint;

std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const isocost::ScratchDirectory scratch = isocost::memory_scratch("isocost-plan-fuzz");
  const std::filesystem::path file = scratch / "scores.jsonl";
  const std::string given(reinterpret_cast<const char*>(data), size);
  std::ofstream(file, std::ios::binary) << given;
  if (const auto first = PlanCheckpoint::open(file, "photos"); !first) {
    if (first.error().code() != isocost::ErrorCode::kInvalidArgument) std::abort();
    if (read(file) != given) std::abort();  // what is refused is left as it was
    return 0;
  }
  const std::string written = read(file);
  if (!PlanCheckpoint::open(file, "photos") || read(file) != written) std::abort();
  return 0;
}
