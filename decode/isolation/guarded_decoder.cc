#include "decode/isolation/guarded_decoder.h"

#include <algorithm>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

class GuardedDecoder final : public SampleDecoder {
 public:
  GuardedDecoder(const Recipe& recipe, const IsolationOptions& options)
      : recipe_(recipe),
        options_(options),
        here_(make_in_process_decoder(recipe, options.cpu_time)) {}

  Tensors tensors(std::span<const PartBytes> parts, BufferPool& pool,
                  const std::stop_token& stop) override {
    const auto guarded = std::ranges::find_if(
        parts, [](const PartBytes& part) { return needs_worker(part.shape->format); });
    if (guarded == parts.end()) return here_->tensors(parts, pool, stop);
    const auto workers = this->workers();
    if (!workers) {
      Error error(ErrorCode::kUnavailable, std::string(format_name(guarded->shape->format)) +
                                               " is decoded in a process of its own, which "
                                               "decode_program names: " +
                                               workers.error().message());
      return tl::unexpected(
          PartError{std::move(error), static_cast<std::size_t>(guarded - parts.begin())});
    }
    return (*workers)->tensors(parts, pool, stop);
  }

 private:
  // Returns the decoder of worker processes, which is made by the first call that succeeds.
  Result<SampleDecoder*> workers() ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!workers_) {
      ISOCOST_ASSIGN(workers_, make_isolated_decoder(recipe_, options_));
    }
    return workers_.get();
  }

  const Recipe recipe_;
  const IsolationOptions options_;
  const std::unique_ptr<SampleDecoder> here_;
  Mutex mutex_;
  std::unique_ptr<SampleDecoder> workers_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<SampleDecoder> make_guarded_decoder(const Recipe& recipe,
                                                    const IsolationOptions& options) {
  return std::make_unique<GuardedDecoder>(recipe, options);
}

}  // namespace isocost
