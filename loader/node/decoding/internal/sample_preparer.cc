#include "loader/node/decoding/internal/sample_preparer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "loader/dataset/stores/machine_error.h"
#include "loader/node/decoding/sample_examiner.h"
#include "transport/wire/messages.h"

namespace isocost {
namespace {

// Whether an error says nothing of the sample.
bool is_error_of_the_attempt(ErrorCode code) {
  return is_machine_error(code) || code == ErrorCode::kOutOfMemory || code == ErrorCode::kCancelled;
}

}  // namespace

Result<SamplePreparer::OrBad<std::vector<NamedTensor>>> SamplePreparer::prepare(
    SampleId id, const BytesAhead& ahead, const std::stop_token& stop) const {
  ISOCOST_ASSIGN(const SampleShape shape, dataset_.checked_shape(id));
  std::vector<std::unique_ptr<WatchedSource>> sources;
  std::vector<PartBytes> parts;
  for (std::size_t i = 0; i < shape.parts.size(); ++i) {
    auto source = dataset_.open_part(id, i, ahead);
    if (!source && is_error_of_the_attempt(source.error().code())) {
      return std::move(source).error();
    }
    if (!source) {
      ISOCOST_TRY(dataset_.check_index(id));
      return bad(id, i, source.error());
    }
    sources.push_back(std::make_unique<WatchedSource>(*std::move(source)));
    parts.push_back({&shape.parts[i], sources.back().get()});
  }
  auto tensors = decoder_.tensors(parts, pool_, stop);
  ISOCOST_TRY(check_reads(id, sources));
  if (!tensors && is_error_of_the_attempt(tensors.error().error.code())) {
    return std::move(tensors).error().error;
  }
  if (!tensors) return bad(id, tensors.error().part, tensors.error().error);
  return OrBad<std::vector<NamedTensor>>(*std::move(tensors));
}

SamplePreparer::OrBad<std::vector<NamedTensor>> SamplePreparer::bad(SampleId id, std::size_t part,
                                                                    const Error& error) const {
  BadSample sample = bad_sample(dataset_, id, error.message());
  sample.part = dataset_.part_name(id, part);
  sample.over_limit = error.code() == ErrorCode::kResourceExhausted;
  return OrBad<std::vector<NamedTensor>>(tl::unexpect, std::move(sample));
}

// A read that failed, or a shard that is overwritten or cut while it is read, looks like damage to
// the decoder.
Status SamplePreparer::check_reads(SampleId id,
                                   std::span<const std::unique_ptr<WatchedSource>> sources) const {
  for (const auto& source : sources) {
    if (auto failure = source->failure()) {
      return (*std::move(failure)).with_context(dataset_.shard(id));
    }
  }
  ISOCOST_TRY(dataset_.open_part(id, 0));
  return dataset_.check_index(id);
}

Result<std::string> SamplePreparer::read_json(SampleId id, const BytesAhead& ahead) const {
  ISOCOST_ASSIGN(const auto source, dataset_.open_json(id, ahead));
  const auto limit = static_cast<std::int64_t>(kMaxSampleJsonBytes);
  if (source == nullptr || source->size() > limit) return std::string();
  std::string text(static_cast<std::size_t>(source->size()), '\0');
  ISOCOST_ASSIGN(const std::size_t read,
                 source->read_at(0, std::as_writable_bytes(std::span(text))));
  text.resize(read);
  return text;
}

}  // namespace isocost
