#include "trainer_adapter/internal/assembly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/wire/wire.h"

namespace isocost {
namespace {

// Two samples: 2 and 1 tokens; only the first has a picture, of 4 patches with 3 values each.
MicrobatchHeader example() {
  MicrobatchHeader header;
  header.microbatches = 1;
  header.samples = {{10, 1.0F, 1}, {11, 0.5F, 1}};
  header.tensors = {{"vision.patches", DType::kUInt8, {4, 3}},
                    {"llm.input_ids", DType::kInt64, {3}},
                    {"llm.lengths", DType::kInt32, {2}},
                    {"llm.labels", DType::kInt64, {3}}};
  header.rows = {4, 2, 1, 2, 0, 1, 1, 1};
  return header;
}

template <typename T>
std::vector<std::byte> raw(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

struct Sample {
  FragmentHeader header;
  std::vector<std::vector<std::byte>> bytes;

  std::vector<std::span<const std::byte>> frames() const { return {bytes.begin(), bytes.end()}; }
};

Sample first_sample() {
  return {{{},
           0,
           {{{"vision.patches", DType::kUInt8, {4, 3}}, 0},
            {{"llm.input_ids", DType::kInt64, {2}}, 0},
            {{"llm.lengths", DType::kInt32, {1}}, 0},
            {{"llm.labels", DType::kInt64, {2}}, 0}}},
          {raw<std::uint8_t>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), raw<std::int64_t>({256, 65}),
           raw<std::int32_t>({2}), raw<std::int64_t>({65, 66})}};
}

Sample second_sample() {
  return {{{},
           1,
           {{{"llm.input_ids", DType::kInt64, {1}}, 0},
            {{"llm.lengths", DType::kInt32, {1}}, 0},
            {{"llm.labels", DType::kInt64, {1}}, 0}}},
          {raw<std::int64_t>({66}), raw<std::int32_t>({1}), raw<std::int64_t>({67})}};
}

TEST(Assembly, PutsRowsInTheOrderOfTheSamples) {
  BufferPool pool;
  Assembly assembly = Assembly::begin(example(), pool, 1 << 20).value();
  const Sample first = first_sample();
  const Sample second = second_sample();
  EXPECT_EQ(assembly.add(second.header, second.frames()).value(), 20);
  EXPECT_FALSE(assembly.complete());
  EXPECT_EQ(assembly.add(first.header, first.frames()).value(), 48);
  ASSERT_TRUE(assembly.complete());
  const Microbatch microbatch = assembly.finish().value();
  const auto ids = microbatch.find("llm.input_ids")->as<std::int64_t>();
  EXPECT_EQ(std::vector(ids.begin(), ids.end()), (std::vector<std::int64_t>{256, 65, 66}));
  const auto sums = microbatch.find("llm.cu_seqlens")->as<std::int32_t>();
  EXPECT_EQ(std::vector(sums.begin(), sums.end()), (std::vector<std::int32_t>{0, 2, 3}));
  const auto weights = microbatch.find("llm.loss_weights")->as<float>();
  EXPECT_EQ(std::vector(weights.begin(), weights.end()), (std::vector<float>{1, 1, 0.5F}));
  EXPECT_TRUE(pool.owns(microbatch.find("vision.patches")->data));
}

// Only the second sample has weights of turns, of so many rows.
Result<Microbatch> finish_with_turn_weights(std::uint32_t rows, BufferPool& pool) {
  const TensorSpec announced{"llm.turn_weights", DType::kFloat32, {rows}};
  MicrobatchHeader header = example();
  header.tensors.push_back(announced);
  header.rows = {4, 2, 1, 2, 0, 0, 1, 1, 1, rows};
  Assembly assembly = Assembly::begin(header, pool, 1 << 20).value();
  const Sample first = first_sample();
  Sample second = second_sample();
  second.header.pieces.push_back({announced, 0});
  second.bytes.push_back(raw(std::vector<float>(rows, 0.25F)));
  EXPECT_TRUE(assembly.add(first.header, first.frames()));
  EXPECT_TRUE(assembly.add(second.header, second.frames()));
  return assembly.finish();
}

TEST(Assembly, MultipliesWeightsOfSamplesAndOfTurns) {
  BufferPool pool;
  const Microbatch microbatch = finish_with_turn_weights(1, pool).value();
  const auto weights = microbatch.find("llm.loss_weights")->as<float>();
  EXPECT_EQ(std::vector(weights.begin(), weights.end()), (std::vector<float>{1, 1, 0.125F}));
  EXPECT_FALSE(microbatch.find("llm.turn_weights").has_value()) << "it is taken up in the other";
  const auto refused = finish_with_turn_weights(2, pool);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::kCorrupt);
}

// The example's tensors in a block, each at a multiple of 64 bytes.
struct ExampleBlock {
  ExampleBlock() {
    const Sample first = first_sample();
    const Sample second = second_sample();
    put(0, first.bytes[0]);
    for (std::size_t t = 1; t < 4; ++t) {
      put(64 * t, first.bytes[t]);
      put(64 * t + first.bytes[t].size(), second.bytes[t - 1]);
    }
  }
  void put(std::size_t at, const std::vector<std::byte>& content) {
    std::copy(content.begin(), content.end(), bytes->begin() + static_cast<std::ptrdiff_t>(at));
  }
  std::shared_ptr<std::vector<std::byte>> bytes = std::make_shared<std::vector<std::byte>>(256);
  std::vector<std::int64_t> offsets = {0, 64, 128, 192};
};

TEST(Assembly, TakesTensorsFromABlockWithoutACopy) {
  const ExampleBlock block;
  BufferPool pool;
  Assembly assembly = Assembly::begin(example(), pool, 1 << 20).value();
  ASSERT_TRUE(assembly.use_block(*block.bytes, block.bytes, block.offsets));
  ASSERT_TRUE(assembly.complete());
  {
    const Microbatch microbatch = assembly.finish().value();
    for (std::size_t t = 0; t < block.offsets.size(); ++t) {
      EXPECT_EQ(microbatch.tensors[t].tensor.data, block.bytes->data() + block.offsets[t]);
    }
    const auto ids = microbatch.find("llm.input_ids")->as<std::int64_t>();
    EXPECT_EQ(std::vector(ids.begin(), ids.end()), (std::vector<std::int64_t>{256, 65, 66}));
    const auto sums = microbatch.find("llm.cu_seqlens")->as<std::int32_t>();
    EXPECT_EQ(std::vector(sums.begin(), sums.end()), (std::vector<std::int32_t>{0, 2, 3}));
    const auto weights = microbatch.find("llm.loss_weights")->as<float>();
    EXPECT_EQ(std::vector(weights.begin(), weights.end()), (std::vector<float>{1, 1, 0.5F}));
    EXPECT_LT(pool.bytes_in_use(), 1000) << "what is computed, and nothing else";
  }
  EXPECT_EQ(block.bytes.use_count(), 1) << "the last tensor lets go of it";
}

TEST(Assembly, TensorsBeyondTheirBlockAreRefused) {
  constexpr std::int64_t kMost = INT64_MAX - 7;
  const ExampleBlock block;
  BufferPool pool;
  const auto refusal = [&](const std::vector<std::int64_t>& offsets, std::size_t bytes = 256) {
    Assembly assembly = Assembly::begin(example(), pool, 1 << 20).value();
    const Status used =
        assembly.use_block(std::span(*block.bytes).first(bytes), block.bytes, offsets);
    EXPECT_FALSE(assembly.complete());
    return used.error().code();
  };
  EXPECT_EQ(refusal({0, 64, 128}), ErrorCode::kCorrupt) << "a tensor is missing";
  EXPECT_EQ(refusal({0, 64, 128, 192, 0}), ErrorCode::kCorrupt);
  EXPECT_EQ(refusal({0, 64, 128, 192}, 192 + 23), ErrorCode::kCorrupt) << "one byte is missing";
  EXPECT_EQ(refusal({0, 64, 128, 240}), ErrorCode::kCorrupt);
  EXPECT_EQ(refusal({0, 64, 128, kMost}), ErrorCode::kCorrupt);
  EXPECT_EQ(refusal({0, 64, 128, -8}), ErrorCode::kCorrupt);
  EXPECT_EQ(refusal({0, 64, 132, 192}), ErrorCode::kCorrupt) << "not aligned";
  EXPECT_EQ(refusal({0, 64, 128, 192}, 0), ErrorCode::kCorrupt);
}

TEST(Assembly, AMicrobatchComesInOneWay) {
  const ExampleBlock block;
  const Sample first = first_sample();
  BufferPool pool;
  Assembly copied = Assembly::begin(example(), pool, 1 << 20).value();
  ASSERT_TRUE(copied.add(first.header, first.frames()));
  EXPECT_FALSE(copied.use_block(*block.bytes, block.bytes, block.offsets));
  Assembly shared = Assembly::begin(example(), pool, 1 << 20).value();
  ASSERT_TRUE(shared.use_block(*block.bytes, block.bytes, block.offsets));
  EXPECT_EQ(shared.add(first.header, first.frames()).value(), 0);
  EXPECT_FALSE(shared.use_block(*block.bytes, block.bytes, block.offsets));
}

TEST(Assembly, IgnoresASampleThatComesTwice) {
  BufferPool pool;
  Assembly assembly = Assembly::begin(example(), pool, 1 << 20).value();
  const Sample first = first_sample();
  EXPECT_GT(assembly.add(first.header, first.frames()).value(), 0);
  EXPECT_EQ(assembly.add(first.header, first.frames()).value(), 0);
  EXPECT_FALSE(assembly.complete());
}

TEST(Assembly, ReportsThatTheMachineHasNoMemory) {
  MicrobatchHeader header;
  header.microbatches = 1;
  header.samples = {{10, 1.0F, 1}};
  const std::int64_t row_bytes = std::int64_t{1} << 62;  // more bytes than any machine has
  header.tensors = {{"vision.patches", DType::kUInt8, {1, row_bytes}}};
  header.rows = {1};
  BufferPool pool;
  Assembly assembly = Assembly::begin(header, pool, INT64_MAX).value();
  const auto exposed = assembly.expose_all();
  ASSERT_FALSE(exposed.has_value());
  EXPECT_EQ(exposed.error().code(), ErrorCode::kOutOfMemory) << exposed.error().message();
}

TEST(Assembly, RefusesWhatContradictsTheAnnouncement) {
  BufferPool pool;
  const auto refused = [&](auto change) {
    Assembly assembly = Assembly::begin(example(), pool, 1 << 20).value();
    Sample sample = first_sample();
    change(sample);
    const auto added = assembly.add(sample.header, sample.frames());
    return !added.has_value() && added.error().code() == ErrorCode::kCorrupt;
  };
  EXPECT_TRUE(refused([](Sample& s) { s.header.sample = 2; }));
  EXPECT_TRUE(refused([](Sample& s) { s.bytes.pop_back(); }));
  EXPECT_TRUE(refused([](Sample& s) { s.bytes[0].push_back(std::byte{0}); }));
  EXPECT_TRUE(refused([](Sample& s) { s.header.pieces[0].offset = 1; })) << "a gap before it";
  EXPECT_TRUE(refused([](Sample& s) { s.header.pieces[0].offset = INT64_MAX; }));
  EXPECT_TRUE(refused([](Sample& s) { s.header.pieces[0].tensor.shape = {4}; }));
  EXPECT_TRUE(refused([](Sample& s) { s.header.pieces[0].tensor.shape = {3, 4}; }));
  EXPECT_TRUE(refused([](Sample& s) { s.header.pieces[1].tensor.dtype = DType::kFloat32; }));
  EXPECT_TRUE(refused([](Sample& s) { s.header.pieces[0].tensor.name = "vision.other"; }));
}

// A large tensor comes in pieces; until the last byte is there nothing is handed out.
TEST(Assembly, JoinsPiecesOfATensor) {
  BufferPool pool;
  Assembly assembly = Assembly::begin(example(), pool, 1 << 20).value();
  const Sample second = second_sample();
  ASSERT_TRUE(assembly.add(second.header, second.frames()));
  Sample head = first_sample();
  const std::vector<std::byte> patches = head.bytes[0];
  head.bytes[0].resize(5);
  EXPECT_EQ(assembly.add(head.header, head.frames()).value(), 5 + 16 + 4 + 16);
  EXPECT_FALSE(assembly.complete());
  FragmentHeader tail{{}, 0, {{head.header.pieces[0].tensor, 5}}};
  const std::span<const std::byte> rest = std::span(patches).subspan(5);
  EXPECT_EQ(assembly.add(tail, {&rest, 1}).value(), 7);
  ASSERT_TRUE(assembly.complete());
  const Microbatch microbatch = assembly.finish().value();
  const auto bytes = microbatch.find("vision.patches")->bytes();
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), patches.begin(), patches.end()));
}

TEST(Assembly, IsNotCompleteIfAFragmentLeavesATensorOut) {
  BufferPool pool;
  Assembly assembly = Assembly::begin(example(), pool, 1 << 20).value();
  Sample first = first_sample();
  first.header.pieces.pop_back();
  first.bytes.pop_back();
  const Sample second = second_sample();
  ASSERT_TRUE(assembly.add(first.header, first.frames()));
  ASSERT_TRUE(assembly.add(second.header, second.frames()));
  EXPECT_FALSE(assembly.complete());
}

TEST(Assembly, RefusesAnnouncementsThatCannotBe) {
  BufferPool pool;
  const auto refused = [&](auto change) {
    MicrobatchHeader header = example();
    change(header);
    const auto assembly = Assembly::begin(header, pool, 1 << 20);
    return !assembly.has_value() && assembly.error().code() == ErrorCode::kCorrupt;
  };
  EXPECT_FALSE(refused([](MicrobatchHeader&) {}));
  EXPECT_FALSE(Assembly::begin(example(), pool, 10).has_value()) << "more bytes than allowed";
  EXPECT_TRUE(refused([](MicrobatchHeader& h) { h.rows[0] = 5; })) << "rows do not add up";
  EXPECT_TRUE(refused([](MicrobatchHeader& h) { h.rows.pop_back(); }));
  EXPECT_TRUE(refused([](MicrobatchHeader& h) { h.tensors[3].name = "llm.input_ids"; }));
  EXPECT_TRUE(refused([](MicrobatchHeader& h) { h.tensors[2].name = "llm.cu_seqlens"; }));
  EXPECT_TRUE(refused([](MicrobatchHeader& h) { h.tensors[2].name = "llm.loss_weights"; }));
  EXPECT_EQ(pool.bytes_in_use(), 0) << "what is refused is not allocated";
}

// Reading lengths of another type as int32 would read past their end.
TEST(Assembly, RefusesTensorsOfAnotherTypeThanTheSchemas) {
  BufferPool pool;
  for (std::size_t i = 0; i < example().tensors.size(); ++i) {
    MicrobatchHeader header = example();
    header.tensors[i].dtype = DType::kFloat32;
    const auto assembly = Assembly::begin(header, pool, 1 << 20);
    ASSERT_FALSE(assembly.has_value()) << header.tensors[i].name;
    EXPECT_EQ(assembly.error().code(), ErrorCode::kCorrupt);
  }
}

TEST(Assembly, RefusesLengthsThatDoNotCoverThePatches) {
  for (const std::int32_t length : {3, 4, 5}) {
    BufferPool pool;
    MicrobatchHeader header = example();
    header.tensors = {{"vision.patches", DType::kUInt8, {4, 3}},
                      {"vision.lengths", DType::kInt32, {1}}};
    header.samples.pop_back();
    header.rows = {4, 1};
    Assembly assembly = Assembly::begin(header, pool, 1 << 20).value();
    const Sample sample = {{{}, 0, {{header.tensors[0], 0}, {header.tensors[1], 0}}},
                           {std::vector<std::byte>(12), raw<std::int32_t>({length})}};
    ASSERT_TRUE(assembly.add(sample.header, sample.frames()));
    EXPECT_EQ(assembly.finish().has_value(), length == 4) << length;
  }
}

TEST(Assembly, RefusesLengthsThatDoNotCoverTheTokens) {
  for (const std::int32_t length : {-1, 1, 3}) {
    BufferPool pool;
    Assembly assembly = Assembly::begin(example(), pool, 1 << 20).value();
    Sample first = first_sample();
    first.bytes[2] = raw<std::int32_t>({length});
    const Sample second = second_sample();
    ASSERT_TRUE(assembly.add(first.header, first.frames()));
    ASSERT_TRUE(assembly.add(second.header, second.frames()));
    EXPECT_FALSE(assembly.finish().has_value()) << length;
  }
}

// A seed of a fuzz target, which must be what this version writes.
void expect_seed(const std::string& name, const std::string& expected) {
  const std::filesystem::path file =
      std::filesystem::path(ISOCOST_SOURCE_DIR) / "tests/trainer_adapter/corpus" / name;
  if (std::getenv("ISOCOST_WRITE_CORPUS") != nullptr) {
    std::ofstream(file, std::ios::binary) << expected;
  }
  std::ifstream in(file, std::ios::binary);
  const std::string read((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(read, expected) << file << ": run this test with ISOCOST_WRITE_CORPUS=1";
}

template <typename Size>
void append_frame(std::string& to, std::span<const std::byte> bytes) {
  const auto size = static_cast<Size>(bytes.size());
  to.append(reinterpret_cast<const char*>(&size), sizeof(size));
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// An announcement and its two fragments, as the fuzz target of assembly reads them.
TEST(Assembly, TheFuzzCorpusIsUpToDate) {
  std::string expected;
  append_frame<std::uint32_t>(expected, encode(example()));
  for (const Sample& sample : {first_sample(), second_sample()}) {
    append_frame<std::uint32_t>(expected, encode(sample.header));
    for (const auto frame : sample.frames()) append_frame<std::uint32_t>(expected, frame);
  }
  expect_seed("assembly_fuzz/two-samples", expected);
}

// Rank 0 of a replica group broadcasts a welcome, a microbatch, the end of an epoch; or a failure
// instead of a welcome.
TEST(Assembly, TheFuzzCorpusOfReplicasIsUpToDate) {
  std::string epoch;
  append_frame<std::uint64_t>(epoch, encode(Welcome{}));
  append_frame<std::uint64_t>(epoch, encode(example()));
  const Sample first = first_sample();
  const Sample second = second_sample();
  for (std::size_t tensor = 0; tensor < first.bytes.size(); ++tensor) {
    std::vector<std::byte> rows = first.bytes[tensor];
    if (tensor > 0) {
      rows.insert(rows.end(), second.bytes[tensor - 1].begin(), second.bytes[tensor - 1].end());
    }
    epoch.append(reinterpret_cast<const char*>(rows.data()), rows.size());
  }
  append_frame<std::uint64_t>(epoch, encode(EpochEnd{}));
  expect_seed("replicas_fuzz/epoch", epoch);

  std::string failure;
  append_frame<std::uint64_t>(failure, encode(Failure{ErrorCode::kIo, "disk gone"}));
  expect_seed("replicas_fuzz/failure", failure);
}

}  // namespace
}  // namespace isocost
