#include "loader/dataset/tokens/token_source.h"

#include <cstddef>
#include <span>
#include <utility>

#include "decode/shape/tokens.h"

namespace isocost {
namespace {

// A sample's tokens, whole or cut; keeps their file mapped.
template <typename Entry>
class EntrySource final : public ByteSource {
 public:
  EntrySource(std::shared_ptr<const TokenFile> file, Entry entry)
      : file_(std::move(file)), entry_(std::move(entry)) {}
  std::int64_t size() const override { return entry_.size(); }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> to) const override {
    return entry_.read_at(offset, to);
  }

 private:
  const std::shared_ptr<const TokenFile> file_;
  const Entry entry_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_tokens(std::shared_ptr<const TokenFile> file,
                                                std::uint64_t sample, const TurnCut* cut) {
  const std::span<const std::byte> whole = file->entry(sample);
  if (cut == nullptr) {
    return std::make_unique<EntrySource<MemoryByteSource>>(std::move(file),
                                                           MemoryByteSource(whole));
  }
  ISOCOST_ASSIGN(CutTokens tokens, CutTokens::create(whole, cut->at));
  return std::make_unique<EntrySource<CutTokens>>(std::move(file), std::move(tokens));
}

}  // namespace isocost
