#include "loader/dataset/decode_options.h"

#include <cstddef>
#include <utility>

#include "base/range.h"
#include "decode/isolation/guarded_decoder.h"
#include "decode/isolation/isolated_decoder.h"
#include "loader/dataset/decoding_memory.h"
#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/internal/freed_memory.h"

namespace isocost {

Status DecodeOptions::validate() const {
  ISOCOST_TRY(check_range("workers", workers, 0, 1024));
  ISOCOST_TRY(check_range("memory", memory, kMiB, std::int64_t{1} << 50));
  ISOCOST_TRY(check_range("cache_size", cache_size, kMiB, std::int64_t{1} << 60));
  ISOCOST_TRY(check_range("max_decoded_pixels", max_decoded_pixels, 1, std::int64_t{1} << 40));
  ISOCOST_TRY(check_range("io_timeout", io_timeout, std::chrono::milliseconds(0),
                          std::chrono::hours(24 * 7)));
  ISOCOST_TRY(check_range("decode_timeout", decode_timeout, std::chrono::milliseconds(100),
                          std::chrono::hours(24)));
  ISOCOST_TRY(SampleReading::create(reading));
  return validate_recipe(recipe);
}

StoreOptions store_options_of(const DecodeOptions& options) {
  return {.ca_file = options.ca_file, .cache = options.cache, .cache_size = options.cache_size};
}

Result<std::unique_ptr<SampleDecoder>> make_decoder(const Recipe& recipe,
                                                    const DecodeOptions& options, LogSink log) {
  IsolationOptions isolation;
  if (!options.decode_program.empty()) isolation.program = options.decode_program;
  isolation.workers = static_cast<std::size_t>(options.workers);
  isolation.cpu_time = options.decode_timeout;
  isolation.memory = decoding_share(options.memory);
  isolation.log = std::move(log);
  if (!options.isolate) {
    keep_freed_memory();  // memory of one decoded picture serves the next one
    return make_guarded_decoder(recipe, isolation);
  }
  return make_isolated_decoder(recipe, isolation);
}

}  // namespace isocost
