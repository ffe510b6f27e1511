#include "loader/plan/cursor.h"

#include <algorithm>
#include <string_view>

#include "base/fingerprint.h"

namespace isocost {
namespace {

__extension__ using Wide = unsigned __int128;

}  // namespace

Cursor::Cursor(const CursorOptions& options)
    : options_(options), order_(options.shuffle, options.seed, options.size, options.blocks) {
  options_.global_batch_size = std::max<std::uint64_t>(options_.global_batch_size, 1);
}

// Returns the number of samples that earlier epochs carry into this one. With kCarry all epochs
// form one stream that is cut into batches; the number is the length of the stream before the
// epoch, modulo the batch.
std::uint64_t Cursor::carried_into(std::uint64_t epoch) const {
  if (options_.tail != TailPolicy::kCarry) return 0;
  return static_cast<std::uint64_t>(Wide{epoch} * options_.size % options_.global_batch_size);
}

std::uint64_t Cursor::available(std::uint64_t epoch) const {
  return carried_into(epoch) + options_.size;
}

bool Cursor::delivers_rest(std::uint64_t epoch) const {
  return options_.tail == TailPolicy::kDeliver ||
         (options_.tail == TailPolicy::kCarry && options_.epochs > 0 &&
          epoch + 1 >= options_.epochs);
}

std::uint64_t Cursor::steps(std::uint64_t epoch) const {
  if (options_.mixture) return options_.mixture->steps().value_or(kEndless);
  return options_.skipped.steps_before(positions(epoch));
}

std::uint64_t Cursor::positions(std::uint64_t epoch) const {
  if (options_.mixture) return options_.mixture->mixture().length().value_or(kEndless);
  if (options_.size == 0) return 0;
  const std::uint64_t full = available(epoch) / options_.global_batch_size;
  const std::uint64_t rest = available(epoch) % options_.global_batch_size;
  const std::uint64_t all = full + (rest > 0 && delivers_rest(epoch) ? 1 : 0);
  return options_.max_steps == 0 ? all : std::min(all, options_.max_steps);
}

std::uint64_t Cursor::dropped(std::uint64_t epoch) const {
  if (options_.tail != TailPolicy::kDrop || options_.mixture) return 0;
  return available(epoch) % options_.global_batch_size;
}

// Returns the number of samples at a position that the epoch has.
std::uint64_t Cursor::size_at(std::uint64_t epoch, std::uint64_t position) const {
  const std::uint64_t begin = position * options_.global_batch_size;
  return std::min(options_.global_batch_size, available(epoch) - begin);
}

std::uint64_t Cursor::skipped(std::uint64_t epoch) const {
  const std::uint64_t all = positions(epoch);
  if (options_.mixture || all == steps(epoch)) return 0;
  const std::uint64_t left_out = all - steps(epoch);
  const bool without_last =
      options_.skipped.steps_before(all) == options_.skipped.steps_before(all - 1);
  const std::uint64_t last = without_last ? size_at(epoch, all - 1) : options_.global_batch_size;
  return (left_out - 1) * options_.global_batch_size + last;
}

std::uint64_t Cursor::fingerprint(std::uint64_t dataset) const {
  if (options_.mixture) return options_.mixture->fingerprint();
  OrderIdentity order{.shuffle = options_.shuffle};
  if (options_.shuffle == ShufflePolicy::kBlocks) {
    order.window_shards = options_.blocks->window_shards();
    order.samples = options_.blocks->fingerprint();
  }
  return fingerprint(dataset, order);
}

std::uint64_t Cursor::fingerprint(std::uint64_t dataset, const OrderIdentity& order) const {
  Fingerprint hash;
  hash.add(dataset);
  hash.add(options_.size);
  const bool shuffled = order.shuffle != ShufflePolicy::kOff;
  hash.add(shuffled ? options_.seed : 0);
  hash.add(shuffled);
  hash.add(options_.global_batch_size);
  hash.add(static_cast<std::uint8_t>(options_.tail));
  if (order.shuffle == ShufflePolicy::kBlocks) {
    hash.add(std::string_view("blocks"));
    hash.add(order.window_shards);
    hash.add(order.samples);
  }
  return std::max<std::uint64_t>(hash.value(), 1);
}

std::vector<SampleId> Cursor::batch(std::uint64_t epoch, std::uint64_t step) const {
  if (step >= steps(epoch)) return {};
  if (options_.mixture) return options_.mixture->batch(epoch, step);
  const std::uint64_t carried = carried_into(epoch);
  const std::uint64_t place = options_.skipped.position_of(step);
  const std::uint64_t begin = place * options_.global_batch_size;
  const std::uint64_t end = begin + size_at(epoch, place);
  std::vector<SampleId> ids;
  ids.reserve(end - begin);
  for (std::uint64_t position = begin; position < end;) {
    if (position >= carried) {
      order_.append(ids, 0, epoch, position - carried, end - position);
      break;
    }
    // If an epoch is smaller than a batch, carried samples come from several epochs.
    const std::uint64_t back = carried - position - 1;
    const std::uint64_t index = options_.size - 1 - back % options_.size;
    const std::uint64_t count = std::min(options_.size - index, end - position);
    order_.append(ids, 0, epoch - 1 - back / options_.size, index, count);
    position += count;
  }
  return ids;
}

}  // namespace isocost
