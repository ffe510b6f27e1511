#include "trainer_adapter/internal/assembly.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "transport/wire.h"

namespace isocost {
namespace {

Error corrupt(const Position& position, const std::string& what) {
  return {ErrorCode::kCorrupt, "step " + std::to_string(position.step) + ", microbatch " +
                                   std::to_string(position.microbatch) + ": " + what};
}

// "<module>.lengths" int32 [sequences] -> "<module>.cu_seqlens" int32 [sequences + 1].
Result<NamedTensor> cumulate(const NamedTensor& lengths, BufferPool& pool) {
  const auto values = lengths.tensor.as<std::int32_t>();
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
  std::string name =
      lengths.name.substr(0, lengths.name.size() - std::string_view("lengths").size());
  const auto rows = static_cast<std::int64_t>(values.size()) + 1;
  ISOCOST_ASSIGN(SharedTensor tensor, make_tensor(std::move(buffer), DType::kInt32, {rows}));
  return NamedTensor{name + "cu_seqlens", std::move(tensor)};
}

// Each sample's weight at each of its tokens.
Result<NamedTensor> spread_weights(const MicrobatchHeader& header, const SharedTensor& lengths,
                                   std::int64_t tokens, BufferPool& pool) {
  const auto values = lengths.as<std::int32_t>();
  Buffer buffer = pool.allocate(tokens * static_cast<std::int64_t>(sizeof(float)));
  auto* weights = reinterpret_cast<float*>(buffer.data());
  std::int64_t at = 0;
  if (values.size() != header.samples.size()) {
    return Error(ErrorCode::kCorrupt, "llm.lengths: not one length a sample");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] > tokens - at) {
      return Error(ErrorCode::kCorrupt, "llm.lengths: more than there are tokens");
    }
    std::fill_n(weights + at, values[i], header.samples[i].weight);
    at += values[i];
  }
  if (at != tokens) return Error(ErrorCode::kCorrupt, "llm.lengths: fewer than there are tokens");
  ISOCOST_ASSIGN(SharedTensor tensor, make_tensor(std::move(buffer), DType::kFloat32, {tokens}));
  return NamedTensor{"llm.loss_weights", std::move(tensor)};
}

}  // namespace

Result<Assembly> Assembly::begin(MicrobatchHeader header, BufferPool& pool,
                                 std::int64_t max_bytes) {
  Assembly assembly;
  const std::size_t tensors = header.tensors.size();
  const std::size_t samples = header.samples.size();
  std::int64_t total = 0;
  for (std::size_t t = 0; t < tensors; ++t) {
    Target target;
    target.spec = header.tensors[t];
    target.offsets.push_back(0);
    for (std::size_t s = 0; s < samples; ++s) {
      target.offsets.push_back(target.offsets.back() + header.rows[s * tensors + t]);
    }
    if (target.offsets.back() != target.spec.shape.front()) {
      return corrupt(header.position, target.spec.name + ": rows do not add up");
    }
    ISOCOST_ASSIGN(const std::int64_t bytes, tensor_bytes(target.spec));
    const auto sum = checked_sum(total, bytes);
    if (!sum || *sum > max_bytes) {
      return corrupt(header.position,
                     "announces more than " + std::to_string(max_bytes) + " bytes");
    }
    total = *sum;
    target.row_bytes = target.offsets.back() > 0 ? bytes / target.offsets.back() : 0;
    target.buffer = pool.allocate(bytes);
    assembly.targets_.push_back(std::move(target));
  }
  assembly.present_.assign(samples, false);
  assembly.missing_ = samples;
  assembly.header_ = std::move(header);
  return assembly;
}

Result<std::int64_t> Assembly::add(const FragmentHeader& header,
                                   std::span<const std::span<const std::byte>> frames) {
  if (header.sample >= present_.size() || frames.size() != header.tensors.size()) {
    return corrupt(header_.position, "a fragment of no sample, or without its frames");
  }
  if (present_[header.sample]) return std::int64_t{0};
  std::int64_t copied = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const TensorSpec& spec = header.tensors[i];
    const auto target = std::find_if(targets_.begin(), targets_.end(), [&](const Target& other) {
      return other.spec.name == spec.name;
    });
    if (target == targets_.end()) return corrupt(header_.position, spec.name + ": not announced");
    const std::int64_t first = target->offsets[header.sample];
    const std::int64_t rows = target->offsets[header.sample + 1] - first;
    const bool alike = spec.dtype == target->spec.dtype && spec.shape.front() == rows &&
                       std::equal(spec.shape.begin() + 1, spec.shape.end(),
                                  target->spec.shape.begin() + 1, target->spec.shape.end());
    const std::int64_t bytes = rows * target->row_bytes;
    if (!alike || static_cast<std::int64_t>(frames[i].size()) != bytes) {
      return corrupt(header_.position, spec.name + ": not the rows that were announced");
    }
    if (bytes > 0) {
      std::memcpy(target->buffer.data() + first * target->row_bytes, frames[i].data(),
                  frames[i].size());
    }
    copied += bytes;
  }
  present_[header.sample] = true;
  missing_ -= 1;
  return copied;
}

Result<Microbatch> Assembly::finish(BufferPool& pool) {
  Microbatch microbatch;
  std::vector<NamedTensor> derived;
  std::int64_t tokens = 0;
  for (Target& target : targets_) {
    ISOCOST_ASSIGN(SharedTensor tensor,
                   make_tensor(std::move(target.buffer), target.spec.dtype, target.spec.shape));
    NamedTensor named{target.spec.name, std::move(tensor)};
    if (named.name == "llm.input_ids") tokens = named.tensor.shape.front();
    if (named.name.ends_with(".lengths") && named.tensor.dtype == DType::kInt32) {
      ISOCOST_ASSIGN(NamedTensor sums, cumulate(named, pool));
      derived.push_back(std::move(sums));
    }
    microbatch.tensors.push_back(std::move(named));
  }
  if (const SharedTensor* lengths = microbatch.find("llm.lengths")) {
    ISOCOST_ASSIGN(NamedTensor weights, spread_weights(header_, *lengths, tokens, pool));
    derived.push_back(std::move(weights));
  }
  for (NamedTensor& named : derived) microbatch.tensors.push_back(std::move(named));
  microbatch.header = std::move(header_);
  return microbatch;
}

}  // namespace isocost
