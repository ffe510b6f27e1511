#include "trainer_adapter/internal/assembler.h"

#include <utility>

namespace isocost {

Assembler::Assembler(const ClientOptions& options, BufferPool& pool)
    : max_microbatch_bytes_(options.max_microbatch_bytes), pool_(pool) {}

Result<std::optional<Assembler::Assembled>> Assembler::begin(MicrobatchHeader header,
                                                             bool has_block) {
  const Position position = header.position;
  ISOCOST_ASSIGN(auto begun, Assembly::begin(std::move(header), pool_, max_microbatch_bytes_));
  const auto at = incomplete_.insert_or_assign(position, std::move(begun)).first;
  if (has_block) {
    if (const auto early = early_blocks_.extract(position)) {
      ISOCOST_TRY(use_block(at->second, early.mapped()));
    }
  }
  return finish_complete(at);
}

Result<std::optional<Assembler::Assembled>> Assembler::add(
    const FragmentHeader& header, std::span<const std::span<const std::byte>> frames) {
  const auto at = incomplete_.find(header.position);
  if (at == incomplete_.end()) return std::optional<Assembled>();
  ISOCOST_ASSIGN(const std::int64_t copied, at->second.add(header, frames));
  bytes_copied_ += copied;
  return finish_complete(at);
}

Result<std::optional<Assembler::Assembled>> Assembler::add(const BlockReceiver::Delivered& block) {
  const auto at = incomplete_.find(block.position);
  if (at == incomplete_.end()) return std::optional<Assembled>();
  ISOCOST_TRY(use_block(at->second, block));
  return finish_complete(at);
}

void Assembler::keep(BlockReceiver::Delivered block) {
  early_blocks_.insert_or_assign(block.position, std::move(block));
}

void Assembler::drop() {
  incomplete_.clear();
  early_blocks_.clear();
}

Status Assembler::use_block(Assembly& assembly, const BlockReceiver::Delivered& block) {
  return assembly.use_block(block.bytes, count_bytes(block.bytes, block.owner), block.offsets,
                            pin_failures_.watch(block.pin));
}

// Returns an owner that keeps the block, and counts its bytes as long as it lives.
std::shared_ptr<const void> Assembler::count_bytes(std::span<const std::byte> block,
                                                   std::shared_ptr<const void> owner) const {
  const auto bytes = static_cast<std::int64_t>(block.size());
  *block_bytes_in_use_ += bytes;
  return {block.data(),
          [owner = std::move(owner), counter = block_bytes_in_use_, bytes](const void*) mutable {
            owner = nullptr;
            *counter -= bytes;
          }};
}

// Returns the microbatch if it is complete.
std::optional<Assembler::Assembled> Assembler::finish_complete(Incomplete::iterator at) {
  if (!at->second.complete()) return std::nullopt;
  auto assembly = incomplete_.extract(at);
  return Assembled{assembly.key(), assembly.mapped().finish()};
}

}  // namespace isocost
