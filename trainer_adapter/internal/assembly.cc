#include "trainer_adapter/internal/assembly.h"

#include <algorithm>
#include <functional>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/load.h"
#include "base/tensor_schema.h"
#include "transport/wire/copy_bytes.h"

namespace isocost {
namespace {

Error corrupt(const Position& position, const std::string& what) {
  return {ErrorCode::kCorrupt, "step " + std::to_string(position.step) + ", microbatch " +
                                   std::to_string(position.microbatch) + ": " + what};
}

// Copies lengths, because a hostile node could change them in shared memory between check and use.
std::vector<std::int32_t> copy_lengths(const SharedTensor& lengths) {
  const auto values = lengths.as<std::int32_t>();
  return {values.begin(), values.end()};
}

// Returns the running sums [sequences + 1] of a module's lengths [sequences].
Result<NamedTensor> sum_lengths(const NamedTensor& lengths, const TensorEntry& sums_entry,
                                BufferPool& pool) {
  const std::vector<std::int32_t> values = copy_lengths(lengths.tensor);
  Buffer buffer =
      pool.allocate(static_cast<std::int64_t>((values.size() + 1) * sizeof(std::int32_t)));
  auto* sums = reinterpret_cast<std::int32_t*>(buffer.data());
  std::int64_t sum = 0;
  sums[0] = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += values[i];
    if (values[i] < 0 || sum > INT32_MAX) {
      return Error(ErrorCode::kCorrupt, lengths.name + ": impossible length");
    }
    sums[i + 1] = static_cast<std::int32_t>(sum);
  }
  const auto rows = static_cast<std::int64_t>(values.size()) + 1;
  ISOCOST_ASSIGN(SharedTensor made,
                 make_tensor(std::move(buffer), sums_entry.dtype, sums_entry.shape(rows)));
  return NamedTensor{std::string(sums_entry.name), std::move(made)};
}

constexpr const TensorEntry& kLlmLengths = tensor_entry(CostModule::kLlm, TensorRole::kLengths);
constexpr const TensorEntry& kLlmLabels = tensor_entry(CostModule::kLlm, TensorRole::kLabels);
constexpr const TensorEntry& kLossWeights =
    tensor_entry(CostModule::kLlm, TensorRole::kLossWeights);

// Weights of turns, for the samples that have some.
struct TurnWeights {
  SharedTensor values;
  std::vector<std::int64_t> first_row;  // first row of each sample, and the end of the last one's
};

// Multiplies the weights of a sample's tokens by those of its turns.
Status weigh_turns(std::span<float> weights, const TurnWeights& turns, std::size_t sample) {
  const auto first = static_cast<std::size_t>(turns.first_row[sample]);
  const auto rows = static_cast<std::size_t>(turns.first_row[sample + 1]) - first;
  if (rows == 0) return {};
  if (rows != weights.size()) {
    return Error(ErrorCode::kCorrupt,
                 std::string(tensor_entry(CostModule::kLlm, TensorRole::kTurnWeights).name) +
                     ": not one for each token");
  }
  const auto factors = turns.values.as<float>().subspan(first, rows);
  std::ranges::transform(weights, factors, weights.begin(), std::multiplies<>());
  return {};
}

// Returns each sample's weight at each of its tokens, times the weight of the token's turn.
Result<NamedTensor> spread_weights(const MicrobatchHeader& header, const SharedTensor& lengths,
                                   std::int64_t tokens, const std::optional<TurnWeights>& turns,
                                   BufferPool& pool) {
  const std::vector<std::int32_t> values = copy_lengths(lengths);
  Buffer buffer = pool.allocate(tokens * static_cast<std::int64_t>(sizeof(float)));
  auto* weights = reinterpret_cast<float*>(buffer.data());
  std::int64_t at = 0;
  const std::string name(kLlmLengths.name);
  if (values.size() != header.samples.size()) {
    return corrupt(header.position, name + ": not one length per sample");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] > tokens - at) {
      return corrupt(header.position, name + ": add up to more than the tokens");
    }
    std::fill_n(weights + at, values[i], header.samples[i].weight);
    const std::span<float> own(weights + at, static_cast<std::size_t>(values[i]));
    if (turns) ISOCOST_TRY(weigh_turns(own, *turns, i));
    at += values[i];
  }
  if (at != tokens) return corrupt(header.position, name + ": add up to fewer than the tokens");
  ISOCOST_ASSIGN(SharedTensor made,
                 make_tensor(std::move(buffer), kLossWeights.dtype, kLossWeights.shape(tokens)));
  return NamedTensor{std::string(kLossWeights.name), std::move(made)};
}

// Checks that the sums of each module's lengths end at its last row, since a trainer indexes other
// tensors of the module with them.
Status check_sums(const Microbatch& microbatch) {
  for (const TensorEntry& entry : kTensorSchema) {
    const TensorEntry* sums_entry = find_tensor(entry.module, TensorRole::kCuSeqlens);
    if (!entry.is_per_unit() || sums_entry == nullptr) continue;
    const auto rows = microbatch.find(entry.name);
    const auto sums = microbatch.find(sums_entry->name);
    if (!rows || !sums) continue;
    if (sums->as<std::int32_t>().back() != rows->shape.front()) {
      return corrupt(microbatch.header.position, std::string(sums_entry->name) +
                                                     ": does not end at the rows of " +
                                                     std::string(entry.name));
    }
  }
  return {};
}

Status check_tensors(const MicrobatchHeader& header) {
  std::set<std::string_view> names;
  for (const TensorSpec& spec : header.tensors) {
    const TensorEntry* entry = find_tensor(spec.name);
    if (entry != nullptr && entry->source == TensorSource::kAssembly) {
      return corrupt(header.position, spec.name + ": is computed by the client, not sent");
    }
    if (entry != nullptr && entry->dtype != spec.dtype) {
      return corrupt(header.position, spec.name + ": is " + std::string(dtype_name(spec.dtype)) +
                                          ", must be " + std::string(dtype_name(entry->dtype)));
    }
    if (!names.insert(spec.name).second) {
      return corrupt(header.position, spec.name + ": announced twice");
    }
  }
  return {};
}

}  // namespace

Result<Assembly> Assembly::begin(MicrobatchHeader header, BufferPool& pool,
                                 std::int64_t max_bytes) {
  ISOCOST_TRY(check_tensors(header));
  Assembly assembly(pool);
  for (std::size_t t = 0; t < header.tensors.size(); ++t) {
    auto rows = row_offsets(header, t);
    if (!rows) return corrupt(header.position, rows.error().message());
    const auto sum = checked_sum(assembly.missing_bytes_, rows->bytes());
    if (!sum) return corrupt(header.position, "announces more bytes than can be counted");
    assembly.missing_bytes_ = *sum;
    Target& target = assembly.targets_.emplace_back();
    target.spec = header.tensors[t];
    target.rows = *std::move(rows);
    target.filled.assign(header.samples.size(), 0);
  }
  if (assembly.missing_bytes_ > max_bytes) {
    const Position& at = header.position;
    return Error(ErrorCode::kResourceExhausted,
                 "the microbatch of epoch " + std::to_string(at.epoch) + ", step " +
                     std::to_string(at.step) + " has " + std::to_string(assembly.missing_bytes_) +
                     " bytes, and max_microbatch_bytes is " + std::to_string(max_bytes) +
                     ": raise it, or give the node a limit (microbatch_memory, max_tokens)");
  }
  assembly.bytes_ = assembly.missing_bytes_;
  assembly.header_ = std::move(header);
  return assembly;
}

// Allocates as late as possible, because a microbatch in a block needs no memory of its own.
Status Assembly::allocate() {
  if (memory_ != Memory::kNone) return {};
  try {
    for (Target& target : targets_) target.buffer = pool_->allocate(target.rows.bytes());
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kOutOfMemory,
                 "no memory for a microbatch of " + std::to_string(missing_bytes_) +
                     " bytes: lower prefetch, or the node's microbatch_memory");
  }
  memory_ = Memory::kOwn;
  return {};
}

Result<std::int64_t> Assembly::add(const FragmentHeader& header,
                                   std::span<const std::span<const std::byte>> frames) {
  if (header.sample >= header_.samples.size() || frames.size() != header.pieces.size()) {
    return corrupt(header_.position, "a fragment without a sample or without its frames");
  }
  if (memory_ == Memory::kBlock) return std::int64_t{0};
  ISOCOST_TRY(allocate());
  std::int64_t copied = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    ISOCOST_ASSIGN(const std::int64_t bytes, add_piece(header.pieces[i], header.sample, frames[i]));
    copied += bytes;
  }
  return copied;
}

Result<std::int64_t> Assembly::add_piece(const FragmentPiece& piece, std::size_t sample,
                                         std::span<const std::byte> bytes) {
  const TensorSpec& spec = piece.tensor;
  const auto target = std::find_if(targets_.begin(), targets_.end(), [&](const Target& other) {
    return other.spec.name == spec.name;
  });
  if (target == targets_.end()) return corrupt(header_.position, spec.name + ": not announced");
  const auto& [row_bytes, first_row] = target->rows;
  const std::int64_t first = first_row[sample];
  const std::int64_t rows = first_row[sample + 1] - first;
  const bool alike = is_part_of(target->spec, spec.dtype, spec.shape, rows);
  const std::int64_t whole = rows * row_bytes;
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (!alike || piece.offset > whole || size > whole - piece.offset) {
    return corrupt(header_.position, spec.name + ": other rows than announced");
  }
  std::int64_t& filled = target->filled[sample];
  if (piece.offset + size <= filled) return std::int64_t{0};  // a repeated or empty piece
  if (piece.offset != filled) {
    return corrupt(header_.position, spec.name + ": a gap before a piece");
  }
  const auto at = static_cast<std::size_t>(first * row_bytes + filled);
  copy_part(target->buffer.bytes().subspan(at, bytes.size()), bytes, bytes_);
  filled += size;
  missing_bytes_ -= size;
  return size;
}

Result<std::vector<std::span<std::byte>>> Assembly::expose_all() {
  ISOCOST_TRY(allocate());
  std::vector<std::span<std::byte>> tensors;
  tensors.reserve(targets_.size());
  for (Target& target : targets_) tensors.push_back(target.buffer.bytes());
  missing_bytes_ = 0;
  return tensors;
}

Status Assembly::use_block(std::span<const std::byte> block,
                           const std::shared_ptr<const void>& owner,
                           std::span<const std::int64_t> offsets, std::function<bool()> pin) {
  constexpr std::int64_t kAlignment = 8;  // sufficient for every dtype
  if (memory_ != Memory::kNone || offsets.size() != targets_.size()) {
    return corrupt(header_.position, "a block with other tensors, or beside fragments");
  }
  const auto size = static_cast<std::int64_t>(block.size());
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    Target& target = targets_[t];
    const std::int64_t offset = offsets[t];
    const std::int64_t bytes = target.rows.bytes();
    if (offset < 0 || offset % kAlignment != 0 || bytes > size || offset > size - bytes) {
      return corrupt(header_.position, target.spec.name + ": lies beyond its block");
    }
    target.in_block = {target.spec.dtype, target.spec.shape, block.data() + offset, owner};
  }
  memory_ = Memory::kBlock;
  pin_ = std::move(pin);
  missing_bytes_ = 0;
  return {};
}

Result<SharedTensor> Assembly::take(Target& target) const {
  if (memory_ == Memory::kBlock) return std::move(target.in_block);
  return make_tensor(std::move(target.buffer), target.spec.dtype, target.spec.shape);
}

Result<Microbatch> Assembly::finish() {
  ISOCOST_TRY(allocate());  // a microbatch without bytes has had no fragment
  BufferPool& pool = *pool_;
  Microbatch microbatch;
  microbatch.pin = std::move(pin_);
  std::vector<NamedTensor> derived;
  std::optional<TurnWeights> turns;
  for (Target& target : targets_) {
    ISOCOST_ASSIGN(SharedTensor made, take(target));
    NamedTensor named{target.spec.name, std::move(made)};
    const TensorEntry* entry = find_tensor(named.name);
    if (entry != nullptr && entry->role == TensorRole::kTurnWeights) {
      turns = {std::move(named.tensor), std::move(target.rows.first_row)};
      continue;
    }
    if (entry != nullptr && entry->role == TensorRole::kLengths) {
      const TensorEntry* sums_entry = find_tensor(entry->module, TensorRole::kCuSeqlens);
      ISOCOST_ASSIGN(NamedTensor sums, sum_lengths(named, *sums_entry, pool));
      derived.push_back(std::move(sums));
    }
    microbatch.tensors.push_back(std::move(named));
  }
  const auto lengths = microbatch.find(kLlmLengths.name);
  const auto labels = microbatch.find(kLlmLabels.name);
  if (lengths && labels) {
    ISOCOST_ASSIGN(NamedTensor weights,
                   spread_weights(header_, *lengths, labels->shape.front(), turns, pool));
    derived.push_back(std::move(weights));
  }
  for (NamedTensor& named : derived) microbatch.tensors.push_back(std::move(named));
  microbatch.header = std::move(header_);
  ISOCOST_TRY(check_sums(microbatch));
  return microbatch;
}

}  // namespace isocost
