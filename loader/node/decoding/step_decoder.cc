#include "loader/node/decoding/step_decoder.h"

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "loader/dataset/stores/machine_error.h"
#include "loader/node/decoding/internal/replacement_draw.h"

namespace isocost {
namespace {

std::int64_t bytes_of(const std::vector<NamedTensor>& tensors) {
  std::int64_t bytes = 0;
  for (const NamedTensor& named : tensors) bytes += named.tensor.size_bytes();
  return bytes;
}

// Returns the most bytes that tensors of this size may hold: a pool's block may be an eighth larger
// than requested.
std::int64_t held_bytes(std::int64_t tensor_bytes) { return tensor_bytes + tensor_bytes / 8; }

}  // namespace

Result<std::vector<StepSample>> StepDecoder::decode_step(std::span<const SampleId> ids,
                                                         const Following& following,
                                                         const std::stop_token& stop,
                                                         const Following& drawn) {
  drawn_ = drawn ? drawn : following;
  Attempts attempts;
  Status begun;
  for (std::size_t i = 0; begun && i < ids.size(); ++i) {
    const auto upcoming = [&](std::size_t after) -> std::optional<SampleId> {
      const std::size_t next = i + 1 + after;
      if (next < ids.size()) return ids[next];
      return drawn_ ? drawn_(next - ids.size()) : std::nullopt;
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

  context_.bad->look_at(ids);
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
    return begin(id, read_ahead_.decoding_begins(id, upcoming), stop);
  }
  auto attempt = std::move(begun_.front());
  begun_.pop_front();
  return attempt;
}

// Begins to decode a sample. Blocks while memory is short.
Result<std::shared_ptr<StepDecoder::Attempt>> StepDecoder::begin(SampleId id,
                                                                 std::shared_ptr<SampleRead> read,
                                                                 const std::stop_token& stop) {
  auto attempt = std::make_shared<Attempt>(id);
  attempt->read = std::move(read);
  // Opens the shard's index, which the machine may refuse for a while.
  const auto open = [&] { return context_.dataset->checked_shape(id); };
  ISOCOST_TRY(context_.retry->run(stop, open));
  ISOCOST_ASSIGN(attempt->bad, examiner_.examine(attempt->sample));
  if (attempt->bad) {
    attempt->read = nullptr;
    return attempt;
  }
  ISOCOST_ASSIGN(MemoryBudget::Grant grant, admit(id, stop));
  start(attempt, std::move(grant), stop);
  return attempt;
}

// Begins the next of the following samples. Never blocks. Returns false if there is no such
// sample or no room for it, and where beginning fails: the sample's own step will report that
// error.
bool StepDecoder::begin_ahead(const Following& following, const std::stop_token& stop) {
  if (!following || stop.stop_requested()) return false;
  const std::optional<SampleId> id = following(begun_.size());
  if (!id) return false;
  auto grant = admission_.try_acquire_ahead(*id);
  if (!grant) return false;
  auto attempt = std::make_shared<Attempt>(*id);
  attempt->read = read_ahead_.decoding_begins(
      *id, [&](std::size_t after) { return drawn_(begun_.size() + 1 + after); });
  auto bad = examiner_.examine(attempt->sample);
  if (!bad) return false;
  attempt->bad = *std::move(bad);
  if (attempt->bad) attempt->read = nullptr;
  if (!attempt->bad) start(attempt, *std::move(grant), stop);
  begun_.push_back(std::move(attempt));
  return true;
}

void StepDecoder::start(const std::shared_ptr<Attempt>& attempt, MemoryBudget::Grant grant,
                        const std::stop_token& stop) {
  auto shared = std::make_shared<MemoryBudget::Grant>(std::move(grant));
  attempt->task = tasks_.submit(DecodeTasks::Turn::kInOrder, [this, attempt, shared, stop] {
    finish(*attempt, std::move(*shared), stop);
  });
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

std::shared_ptr<const DecodedSample> StepDecoder::hold(std::vector<NamedTensor> tensors,
                                                       MemoryBudget::Grant grant) const {
  const std::int64_t bytes = bytes_of(tensors);
  decoded_bytes_ += bytes;
  grant.shrink(held_bytes(bytes));
  return std::make_shared<const DecodedSample>(DecodedSample{std::move(grant), std::move(tensors)});
}

Result<StepDecoder::OrBad<std::shared_ptr<const DecodedSample>>> StepDecoder::decode(
    SampleId id, const std::shared_ptr<SampleRead>& read, MemoryBudget::Grant grant,
    const std::stop_token& stop) const {
  const DecodesInFlight::Scope in_flight(in_flight_, id);
  const std::stop_callback stop_reading(stop, [&] {
    if (read) read->stop();
  });
  using Again = Result<OrBad<std::vector<NamedTensor>>>;
  // The sample was decoded before, so the memory that it needs is lacking only for a while.
  bool is_read = read != nullptr;
  const auto prepare_again = [&] {
    const bool has_bytes = std::exchange(is_read, false);
    const BytesAhead ahead = has_bytes ? read->begin() : preparer_.read(id, stop);
    if (stop.stop_requested()) {
      return Again(Error(ErrorCode::kCancelled, "stopped while it was read"));
    }
    auto tensors = preparer_.prepare(id, ahead, stop);
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
  const std::shared_ptr<SampleRead> begun = std::exchange(attempt.read, nullptr);
  const std::stop_callback stop_reading(stop, [&] {
    if (begun) begun->stop();
  });
  using Prepared = Result<OrBad<std::vector<NamedTensor>>>;
  // `prepare` finds out whether the shard changed while either was read.
  const auto read_from = [&](const BytesAhead& ahead) -> Prepared {
    // A compressed shard that was not opened for the stop would be opened again.
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while it was read");
    ISOCOST_ASSIGN(attempt.sample.json, preparer_.read_json(id, ahead));
    return preparer_.prepare(id, ahead, stop);
  };
  bool is_ahead = begun != nullptr;
  bool has_bytes = false;
  const auto read = [&]() -> Prepared {
    if (std::exchange(is_ahead, false)) {
      Prepared prepared = read_from(begun->begin());
      has_bytes = prepared.has_value();
      // A read that failed then may succeed by now.
      if (prepared || !is_machine_error(prepared.error().code())) return prepared;
    }
    return read_from(preparer_.read(id, stop));
  };
  auto prepared = context_.retry->run(stop, read);
  if (!prepared && prepared.error().code() == ErrorCode::kOutOfMemory) {
    attempt.bad = bad_sample(*context_.dataset, id, prepared.error().message());
    return {};
  }
  ISOCOST_ASSIGN(auto tensors, std::move(prepared));
  if (!tensors) {
    attempt.bad = std::move(tensors).error();
    return {};
  }
  attempt.sample.specs = specs_of(*tensors);
  attempt.sample.decoded = waiting_.keep_if_room(hold(*std::move(tensors), std::move(grant)));
  if (!attempt.sample.decoded && has_bytes && read_ahead_.keep_if_room(*begun)) {
    attempt.sample.read = begun;
  }
  return {};
}

Result<std::optional<StepSample>> StepDecoder::replacement(SampleId bad,
                                                           std::span<const SampleId> taken,
                                                           const Following& following,
                                                           const std::stop_token& stop) {
  ReplacementDraw draw(seed_, bad, source_of(*context_.dataset, bad));
  while (const auto id = draw.next(taken)) {
    ISOCOST_ASSIGN(const auto attempt, begin(*id, nullptr, stop));
    ISOCOST_TRY(end({attempt}, following, stop));
    if (!attempt->bad) return std::optional(std::move(attempt->sample));
  }
  return std::optional<StepSample>();
}

}  // namespace isocost
