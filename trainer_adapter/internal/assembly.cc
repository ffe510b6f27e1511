#include "trainer_adapter/internal/assembly.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <optional>
#include <set>
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

// Where lengths say how the rows of another tensor are cut, they must cover all of them: a trainer
// indexes with their sums.
Status check_cover(const Microbatch& microbatch) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kCuts = {
      {{"vision.cu_seqlens", "vision.patches"},
       {"audio.cu_seqlens", "audio.mel"},
       {"llm.cu_seqlens", "llm.input_ids"},
       {"llm.cu_seqlens", "llm.labels"}}};
  for (const auto& [sums, rows] : kCuts) {
    const SharedTensor* cuts = microbatch.find(sums);
    const SharedTensor* cut = microbatch.find(rows);
    if (cuts == nullptr || cut == nullptr) continue;
    if (cuts->as<std::int32_t>().back() != cut->shape.front()) {
      return corrupt(microbatch.header.position,
                     std::string(sums) + ": does not end at the rows of " + std::string(rows));
    }
  }
  return {};
}

bool is_derived(std::string_view name) {
  return name.ends_with(".cu_seqlens") || name == "llm.loss_weights";
}

Status check_names(const MicrobatchHeader& header) {
  std::set<std::string_view> names;
  for (const TensorSpec& spec : header.tensors) {
    if (is_derived(spec.name)) {
      return corrupt(header.position, spec.name + ": is derived here, not sent");
    }
    if (!names.insert(spec.name).second) {
      return corrupt(header.position, spec.name + ": announced twice");
    }
  }
  return {};
}

}  // namespace

Result<Assembly::Target> Assembly::place(const MicrobatchHeader& header, std::size_t tensor) {
  const std::size_t samples = header.samples.size();
  Target target;
  target.spec = header.tensors[tensor];
  target.first_row.reserve(samples + 1);
  target.first_row.push_back(0);
  for (std::size_t s = 0; s < samples; ++s) {
    target.first_row.push_back(target.first_row.back() +
                               header.rows[s * header.tensors.size() + tensor]);
  }
  const std::int64_t rows = target.first_row.back();
  if (rows != target.spec.shape.front()) {
    return corrupt(header.position, target.spec.name + ": rows do not add up");
  }
  ISOCOST_ASSIGN(const std::int64_t bytes, tensor_bytes(target.spec));
  target.row_bytes = rows > 0 ? bytes / rows : 0;
  target.filled.assign(samples, 0);
  return target;
}

Result<Assembly> Assembly::begin(MicrobatchHeader header, BufferPool& pool,
                                 std::int64_t max_bytes) {
  if (header.rows.size() != header.samples.size() * header.tensors.size()) {
    return corrupt(header.position, "not one number of rows for each sample and tensor");
  }
  ISOCOST_TRY(check_names(header));
  Assembly assembly;
  for (std::size_t t = 0; t < header.tensors.size(); ++t) {
    ISOCOST_ASSIGN(Target target, place(header, t));
    const std::int64_t bytes = target.first_row.back() * target.row_bytes;
    const auto sum = checked_sum(assembly.missing_bytes_, bytes);
    if (!sum || *sum > max_bytes) {
      return corrupt(header.position,
                     "announces more than " + std::to_string(max_bytes) + " bytes");
    }
    assembly.missing_bytes_ = *sum;
    assembly.targets_.push_back(std::move(target));
  }
  // Only now, when all of it is known to be within the limit.
  try {
    for (Target& target : assembly.targets_) {
      target.buffer = pool.allocate(target.first_row.back() * target.row_bytes);
    }
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kResourceExhausted,
                 "no memory for a microbatch of " + std::to_string(assembly.missing_bytes_) +
                     " bytes: lower the prefetch, or give the node a smaller microbatch");
  }
  assembly.header_ = std::move(header);
  return assembly;
}

Result<std::int64_t> Assembly::add(const FragmentHeader& header,
                                   std::span<const std::span<const std::byte>> frames) {
  if (header.sample >= header_.samples.size() || frames.size() != header.pieces.size()) {
    return corrupt(header_.position, "a fragment of no sample, or without its frames");
  }
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
  const std::vector<std::int64_t>& shape = target->spec.shape;
  const std::int64_t first = target->first_row[sample];
  const std::int64_t rows = target->first_row[sample + 1] - first;
  const bool alike = spec.dtype == target->spec.dtype && spec.shape.size() == shape.size() &&
                     spec.shape.front() == rows &&
                     std::equal(shape.begin() + 1, shape.end(), spec.shape.begin() + 1);
  const std::int64_t whole = rows * target->row_bytes;
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (!alike || piece.offset > whole || size > whole - piece.offset) {
    return corrupt(header_.position, spec.name + ": not the rows that were announced");
  }
  std::int64_t& filled = target->filled[sample];
  if (piece.offset + size <= filled) return std::int64_t{0};  // came already, or is empty
  if (piece.offset != filled) {
    return corrupt(header_.position, spec.name + ": a piece does not follow the one before");
  }
  std::memcpy(target->buffer.data() + first * target->row_bytes + filled, bytes.data(),
              bytes.size());
  filled += size;
  missing_bytes_ -= size;
  return size;
}

std::vector<std::span<std::byte>> Assembly::take_whole() {
  std::vector<std::span<std::byte>> tensors;
  for (Target& target : targets_) tensors.push_back(target.buffer.bytes());
  missing_bytes_ = 0;
  return tensors;
}

Result<Microbatch> Assembly::finish(BufferPool& pool) {
  Microbatch microbatch;
  std::vector<NamedTensor> derived;
  for (Target& target : targets_) {
    ISOCOST_ASSIGN(SharedTensor tensor,
                   make_tensor(std::move(target.buffer), target.spec.dtype, target.spec.shape));
    NamedTensor named{target.spec.name, std::move(tensor)};
    if (named.name.ends_with(".lengths") && named.tensor.dtype == DType::kInt32) {
      ISOCOST_ASSIGN(NamedTensor sums, cumulate(named, pool));
      derived.push_back(std::move(sums));
    }
    microbatch.tensors.push_back(std::move(named));
  }
  const SharedTensor* lengths = microbatch.find("llm.lengths");
  const SharedTensor* labels = microbatch.find("llm.labels");
  if (lengths != nullptr && labels != nullptr) {
    if (lengths->dtype != DType::kInt32) {
      return corrupt(header_.position, "llm.lengths: is not int32");
    }
    ISOCOST_ASSIGN(NamedTensor weights,
                   spread_weights(header_, *lengths, labels->shape.front(), pool));
    derived.push_back(std::move(weights));
  }
  for (NamedTensor& named : derived) microbatch.tensors.push_back(std::move(named));
  microbatch.header = std::move(header_);
  ISOCOST_TRY(check_cover(microbatch));
  return microbatch;
}

}  // namespace isocost
