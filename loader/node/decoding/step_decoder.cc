#include "loader/node/decoding/step_decoder.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/byte_source.h"
#include "base/random.h"
#include "loader/dataset/decoding_memory.h"
#include "loader/dataset/stores/machine_error.h"
#include "transport/wire/messages.h"

namespace isocost {
namespace {

std::int64_t bytes_of(const std::vector<NamedTensor>& tensors) {
  std::int64_t bytes = 0;
  for (const NamedTensor& named : tensors) bytes += named.tensor.size_bytes();
  return bytes;
}

std::vector<TensorSpec> specs_of(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const NamedTensor& named : tensors) {
    specs.push_back({named.name, named.tensor.dtype, named.tensor.shape});
  }
  return specs;
}

// Returns the most bytes that tensors of this size may hold: a pool's block may be an eighth larger
// than requested.
std::int64_t held_bytes(std::int64_t tensor_bytes) { return tensor_bytes + tensor_bytes / 8; }

// Returns whether an error tells nothing about the sample.
bool is_error_of_the_attempt(ErrorCode code) {
  return is_machine_error(code) || code == ErrorCode::kOutOfMemory || code == ErrorCode::kCancelled;
}

}  // namespace

Result<std::vector<StepSample>> StepDecoder::decode_step(std::span<const SampleId> ids,
                                                         const Following& following,
                                                         const std::stop_token& stop) {
  Attempts attempts;
  Status begun;
  for (std::size_t i = 0; begun && i < ids.size(); ++i) {
    const auto upcoming = [&](std::size_t after) -> std::optional<SampleId> {
      const std::size_t next = i + 1 + after;
      if (next < ids.size()) return ids[next];
      return following ? following(next - ids.size()) : std::nullopt;
    };
    auto attempt = take_or_begin(ids[i], upcoming, stop);
    if (attempt) {
      attempts.push_back(*std::move(attempt));
    } else {
      begun = std::move(attempt).error();
    }
  }
  const Status ended = end(attempts, begun ? following : Following(), stop);
  ISOCOST_TRY(begun);
  ISOCOST_TRY(ended);

  context_.bad->look_at(ids.size(), context_.dataset->size());
  std::vector<StepSample> good;
  std::vector<SampleId> taken(ids.begin(), ids.end());
  for (const auto& ended_attempt : attempts) {
    Attempt& attempt = *ended_attempt;
    if (!attempt.bad) {
      good.push_back(std::move(attempt.sample));
      continue;
    }
    ISOCOST_TRY(context_.bad->add(*attempt.bad));
    if (policy_ != BadSamplePolicy::kReplace) continue;
    ISOCOST_ASSIGN(auto another, replacement(attempt.sample.id, taken, following, stop));
    if (!another) continue;
    taken.push_back(another->id);
    good.push_back(std::move(*another));
    ++replaced_;
  }
  return good;
}

Result<std::shared_ptr<StepDecoder::Attempt>> StepDecoder::take_or_begin(
    SampleId id, const ReadAhead::Upcoming& upcoming, const std::stop_token& stop) {
  // If the sample is not the first of those begun, other steps come than were expected.
  if (!begun_.empty() && begun_.front()->sample.id != id) drop_begun();
  if (begun_.empty()) {
    read_ahead_.decoding_begins(id, upcoming);
    return begin(id, stop);
  }
  auto attempt = std::move(begun_.front());
  begun_.pop_front();
  return attempt;
}

// Begins to decode a sample. Blocks while memory is short.
Result<std::shared_ptr<StepDecoder::Attempt>> StepDecoder::begin(SampleId id,
                                                                 const std::stop_token& stop) {
  auto attempt = std::make_shared<Attempt>(id);
  ISOCOST_TRY(examine(*attempt));
  if (attempt->bad) return attempt;
  ISOCOST_ASSIGN(MemoryBudget::Grant grant, admit(id, stop));
  start(attempt, std::move(grant), stop);
  return attempt;
}

// Begins the next of the following samples. Never blocks. Returns false where there is no such
// sample or no room for it, and where beginning fails: the sample's own step will report that
// error.
bool StepDecoder::begin_ahead(const Following& following, const std::stop_token& stop) {
  if (!following || stop.stop_requested()) return false;
  const std::optional<SampleId> id = following(begun_.size());
  if (!id) return false;
  const auto needed = context_.recipe->working_set_bytes(context_.dataset->shape(*id));
  if (!needed) return false;
  // Stays within the half of the budget for waiting samples, which this one will join: the other
  // half is for samples that are needed now. Leaves a quarter of the first half for blocks of
  // shared memory, which would otherwise find no room.
  auto grant = context_.budget->try_acquire(*needed, context_.budget->limit() / 8 * 3);
  if (!grant) return false;
  read_ahead_.decoding_begins(
      *id, [&](std::size_t after) { return following(begun_.size() + 1 + after); });
  auto attempt = std::make_shared<Attempt>(*id);
  if (!examine(*attempt)) return false;
  if (!attempt->bad) start(attempt, *std::move(grant), stop);
  begun_.push_back(std::move(attempt));
  return true;
}

void StepDecoder::start(const std::shared_ptr<Attempt>& attempt, MemoryBudget::Grant grant,
                        const std::stop_token& stop) {
  auto shared = std::make_shared<MemoryBudget::Grant>(std::move(grant));
  attempt->task =
      tasks_.submit([this, attempt, shared, stop] { finish(*attempt, std::move(*shared), stop); });
}

// Blocks until the attempts have ended. Their tasks wait for nothing but reads, up to the reads'
// time-out or `stop`. Meanwhile idle workers begin samples of the following steps.
Status StepDecoder::end(const Attempts& attempts, const Following& following,
                        const std::stop_token& stop) {
  std::vector<DecodeTasks::TaskHandle> tasks;
  for (const auto& attempt : attempts) {
    if (attempt->task) tasks.push_back(attempt->task);
  }
  bool more = true;
  while (!tasks_.wait(tasks, more)) more = begin_ahead(following, stop);
  for (const auto& attempt : attempts) {
    std::optional<Error>& failed = attempt->failed;
    if (failed) return *std::move(failed);
  }
  return {};
}

// Checks what is known of a sample before it is decoded. Errors: those of the load hook and of
// Dataset::check_index.
Status StepDecoder::examine(Attempt& attempt) const {
  const SampleId id = attempt.sample.id;
  attempt.bad = check_shape(attempt.sample);
  // `prepare` checks the index of a good sample, and each check is a system call. It is therefore
  // checked here only for a bad sample, and before a hook, which must see no damage.
  if (attempt.bad || context_.load_hook) ISOCOST_TRY(context_.dataset->check_index(id));
  if (attempt.bad) return {};
  ISOCOST_TRY(apply_hook(attempt.sample));
  attempt.bad = check_load(attempt.sample);
  return attempt.bad ? context_.dataset->check_index(id) : Status();
}

BadSample StepDecoder::bad_sample(SampleId id, std::string reason) const {
  return {std::string(context_.dataset->shard(id)), std::string(context_.dataset->key(id)), "",
          std::move(reason)};
}

// Checks a sample's shape. Returns a bad sample if the shape alone rules it out; otherwise fills in
// what follows from the shape.
std::optional<BadSample> StepDecoder::check_shape(StepSample& sample) const {
  const SampleShape shape = context_.dataset->shape(sample.id);
  auto load = context_.recipe->load(shape);
  auto parts = context_.recipe->parts(shape);
  auto needed = decoding_bytes(*context_.recipe, shape, context_.budget->limit());
  if (!load) return bad_sample(sample.id, load.error().message());
  if (!parts) return bad_sample(sample.id, parts.error().message());
  if (!needed) {
    BadSample bad = bad_sample(sample.id, needed.error().message());
    bad.over_limit = needed.error().code() == ErrorCode::kResourceExhausted;
    return bad;
  }
  sample.load = *load;
  sample.weight = shape.weight;
  sample.key = std::string(context_.dataset->shard(sample.id)) + "/" +
               std::string(context_.dataset->key(sample.id));
  sample.parts = *std::move(parts);
  return std::nullopt;
}

Status StepDecoder::apply_hook(StepSample& sample) const {
  if (!context_.load_hook) return {};
  ISOCOST_ASSIGN(sample.load, context_.load_hook(sample.id, *context_.dataset, sample.load));
  return {};
}

// Returns a bad sample if no microbatch or pipeline stage could hold it, whatever the plan.
std::optional<BadSample> StepDecoder::check_load(const StepSample& sample) const {
  if (context_.limits != nullptr) {
    if (auto reason = context_.limits->why_too_large(sample.load)) {
      BadSample bad = bad_sample(sample.id, *std::move(reason));
      bad.over_limit = true;
      return bad;
    }
  }
  if (context_.layout == nullptr) return std::nullopt;
  auto reason = context_.layout->beyond_memory(sample.load);
  if (!reason) return std::nullopt;
  return bad_sample(sample.id, *std::move(reason));
}

Result<MemoryBudget::Grant> StepDecoder::admit(SampleId id, const std::stop_token& stop) const {
  ISOCOST_ASSIGN(const std::int64_t bytes,
                 context_.recipe->working_set_bytes(context_.dataset->shape(id)));
  return context_.budget->acquire(bytes, stop);
}

// Returns the text of SampleEntry::json.
Result<std::string> StepDecoder::read_json(SampleId id) const {
  ISOCOST_ASSIGN(const auto source, context_.dataset->open_json(id));
  const auto limit = static_cast<std::int64_t>(kMaxSampleJsonBytes);
  if (source == nullptr || source->size() > limit) return std::string();
  std::string text(static_cast<std::size_t>(source->size()), '\0');
  ISOCOST_ASSIGN(const std::size_t read,
                 source->read_at(0, std::as_writable_bytes(std::span(text))));
  text.resize(read);
  return text;
}

Result<StepDecoder::OrBad<std::vector<NamedTensor>>> StepDecoder::prepare(
    SampleId id, const std::stop_token& stop) const {
  const Dataset& dataset = *context_.dataset;
  const SampleShape shape = dataset.shape(id);
  std::vector<std::unique_ptr<WatchedSource>> sources;
  std::vector<PartBytes> parts;
  const auto bad = [&](std::size_t part, const Error& error) {
    BadSample sample = bad_sample(id, error.message());
    sample.part = dataset.part_name(id, part);
    sample.over_limit = error.code() == ErrorCode::kResourceExhausted;
    return OrBad<std::vector<NamedTensor>>(tl::unexpect, std::move(sample));
  };
  for (std::size_t i = 0; i < shape.parts.size(); ++i) {
    auto source = dataset.open_part(id, i);
    if (!source && is_machine_error(source.error().code())) return std::move(source).error();
    if (!source) {
      ISOCOST_TRY(dataset.check_index(id));
      return bad(i, source.error());
    }
    sources.push_back(std::make_unique<WatchedSource>(*std::move(source)));
    parts.push_back({&shape.parts[i], sources.back().get()});
  }
  auto tensors = context_.decoder->tensors(parts, *context_.pool, stop);
  ISOCOST_TRY(check_reads(id, sources));
  if (!tensors && is_error_of_the_attempt(tensors.error().error.code())) {
    return std::move(tensors).error().error;
  }
  if (!tensors) return bad(tensors.error().part, tensors.error().error);
  return OrBad<std::vector<NamedTensor>>(*std::move(tensors));
}

// Finds errors of reading that look like damage to the decoder: a read that failed, or a shard that
// was overwritten or cut while it was read.
Status StepDecoder::check_reads(SampleId id,
                                std::span<const std::unique_ptr<WatchedSource>> sources) const {
  for (const auto& source : sources) {
    if (auto failure = source->failure()) {
      return (*std::move(failure)).with_context(context_.dataset->shard(id));
    }
  }
  ISOCOST_TRY(context_.dataset->open_part(id, 0));
  return context_.dataset->check_index(id);
}

std::shared_ptr<const DecodedSample> StepDecoder::hold(std::vector<NamedTensor> tensors,
                                                       MemoryBudget::Grant grant) const {
  const std::int64_t bytes = bytes_of(tensors);
  decoded_bytes_ += bytes;
  grant.shrink(held_bytes(bytes));
  return std::make_shared<const DecodedSample>(DecodedSample{std::move(grant), std::move(tensors)});
}

Result<StepDecoder::OrBad<std::shared_ptr<const DecodedSample>>> StepDecoder::decode(
    SampleId id, MemoryBudget::Grant grant, const std::stop_token& stop) const {
  const DecodesInFlight::Scope in_flight(in_flight_, id);
  // The sample was decoded before, so the memory that it needs is lacking only for a while.
  const auto prepare_again = [&] {
    auto tensors = prepare(id, stop);
    if (!tensors && tensors.error().code() == ErrorCode::kOutOfMemory) {
      tensors = Error(ErrorCode::kUnavailable, tensors.error().message());
    }
    return tensors;
  };
  ISOCOST_ASSIGN(auto tensors, context_.retry->run(stop, prepare_again));
  return std::move(tensors).map(
      [&](std::vector<NamedTensor> decoded) { return hold(std::move(decoded), std::move(grant)); });
}

void StepDecoder::finish(Attempt& attempt, MemoryBudget::Grant grant, const std::stop_token& stop) {
  Status filled = fill(attempt, std::move(grant), stop);
  if (!filled) attempt.failed = std::move(filled).error();
}

Status StepDecoder::fill(Attempt& attempt, MemoryBudget::Grant grant, const std::stop_token& stop) {
  const SampleId id = attempt.sample.id;
  const DecodesInFlight::Scope in_flight(in_flight_, id);
  // `prepare` checks whether the shard changed while the JSON text or the sample was read.
  const auto read = [&]() -> decltype(prepare(id, stop)) {
    ISOCOST_ASSIGN(attempt.sample.json, read_json(id));
    return prepare(id, stop);
  };
  auto prepared = context_.retry->run(stop, read);
  if (!prepared && prepared.error().code() == ErrorCode::kOutOfMemory) {
    attempt.bad = bad_sample(id, prepared.error().message());
    return {};
  }
  ISOCOST_ASSIGN(auto tensors, std::move(prepared));
  if (!tensors) {
    attempt.bad = std::move(tensors).error();
    return {};
  }
  attempt.sample.specs = specs_of(*tensors);
  attempt.sample.decoded = hold_if_room(hold(*std::move(tensors), std::move(grant)));
  return {};
}

std::shared_ptr<const DecodedSample> StepDecoder::hold_if_room(
    std::shared_ptr<const DecodedSample> decoded) {
  const std::int64_t bytes = decoded->grant.bytes();
  auto granted = waiting_->budget.try_acquire(bytes);
  if (!granted) return nullptr;
  auto held = std::make_shared<MemoryBudget::Grant>(*std::move(granted));
  waiting_->bytes += bytes;
  waiting_->samples += 1;
  const DecodedSample* sample = decoded.get();
  return {sample, [decoded = std::move(decoded), held = std::move(held), waiting = waiting_,
                   bytes](const DecodedSample*) mutable {
            decoded.reset();
            held.reset();
            waiting->bytes -= bytes;
            waiting->samples -= 1;
          }};
}

Result<std::optional<StepSample>> StepDecoder::replacement(SampleId bad,
                                                           std::span<const SampleId> taken,
                                                           const Following& following,
                                                           const std::stop_token& stop) {
  constexpr int kTries = 16;
  Random random(seed_ ^ (bad * 0x9E3779B97F4A7C15ULL));
  for (int i = 0; i < kTries; ++i) {
    const SampleId id = random.below(context_.dataset->size());
    if (std::find(taken.begin(), taken.end(), id) != taken.end()) continue;
    ISOCOST_ASSIGN(const auto attempt, begin(id, stop));
    ISOCOST_TRY(end({attempt}, following, stop));
    if (!attempt->bad) return std::optional(std::move(attempt->sample));
  }
  return std::optional<StepSample>();
}

}  // namespace isocost
