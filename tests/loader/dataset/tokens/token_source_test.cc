#include "loader/dataset/tokens/token_source.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/scratch_directory.h"
#include "decode/shape/tokens.h"
#include "tests/loader/dataset/made_shards.h"

namespace isocost {
namespace {

const Tokens kWhole{.ids = {1, 2, 3}, .labelled = {false, true, true}, .turns = {{2, 0, {}}}};

Tokens tokens_of(const ByteSource& source) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(source.size()));
  EXPECT_EQ(source.read_at(0, bytes).value(), bytes.size());
  return decode_tokens(bytes).value();
}

TEST(TokenSource, HasTheTokensAndKeepsTheFileMapped) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  auto file = made_tokens(scratch, std::vector{TokenizedSample{kWhole, ""}});
  const std::weak_ptr<const TokenFile> watched = file;
  auto source = open_tokens(std::move(file), 0, nullptr).value();
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(tokens_of(*source), kWhole);
  source.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(TokenSource, EndsAtTheCut) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const auto file = made_tokens(scratch, std::vector{TokenizedSample{kWhole, ""}});
  const TurnCut cut{.end = {2, 0, {}}, .at = {2, 1, 0}, .label_tokens = 1};
  const auto source = open_tokens(file, 0, &cut).value();
  EXPECT_EQ(tokens_of(*source).ids, (std::vector<std::uint32_t>{1, 2}));
  const TurnCut beyond{.end = {5, 0, {}}, .at = {5, 1, 0}, .label_tokens = 1};
  EXPECT_EQ(open_tokens(file, 0, &beyond).error().code(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace isocost
