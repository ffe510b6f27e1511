// MDS data sets that Mosaic Streaming's writer made (golden/make.py), against what its reader
// reads; and data sets that are broken on purpose.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/base64.h"
#include "base/byte_source.h"
#include "base/read_file.h"
#include "loader/dataset/formats/file_hash.h"
#include "loader/dataset/formats/mds_columns.h"
#include "loader/dataset/formats/mds_index.h"
#include "loader/dataset/formats/mds_json.h"
#include "loader/dataset/formats/mds_shard.h"
#include "loader/dataset/records/internal/json_value.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kMaxFile = std::size_t{1} << 20;

fs::path golden() { return fs::path(ISOCOST_SOURCE_DIR) / "tests/loader/dataset/formats/golden"; }

std::string text_of(const fs::path& file) { return read_file("file", file, kMaxFile).value(); }

std::string bytes_at(const ByteSource& source, std::int64_t offset, std::int64_t size) {
  std::string bytes(static_cast<std::size_t>(size), '\0');
  bytes.resize(source.read_at(offset, std::as_writable_bytes(std::span(bytes))).value());
  return bytes;
}

std::vector<std::string> values_of(const ByteSource& source, const std::vector<MdsValue>& places) {
  std::vector<std::string> values;
  values.reserve(places.size());
  for (const auto& [offset, bytes] : places) values.push_back(bytes_at(source, offset, bytes));
  return values;
}

bool same(const ordered_json& ours, const ordered_json& theirs) {
  if (theirs.is_object() && theirs.contains("decimal")) {
    return ours == ordered_json::parse(theirs["decimal"].get<std::string>());
  }
  if (theirs.is_number_float() && std::isnan(theirs.get<double>())) {
    return ours.is_number_float() && std::isnan(ours.get<double>());
  }
  return ours == theirs && ours.is_number_float() == theirs.is_number_float();
}

// Compares a sample with what the reader of Mosaic Streaming made of it.
void expect_same(const std::vector<MdsColumn>& columns, const std::vector<std::string>& values,
                 const ordered_json& theirs) {
  const std::vector<std::string_view> views(values.begin(), values.end());
  const std::string text = mds_json(columns, views).value();
  const ordered_json made = text.empty() ? ordered_json() : parse_json_value(text, 64).value();
  ASSERT_EQ(theirs.size(), columns.size());
  std::size_t members = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const ordered_json& value = theirs.at(columns[i].name);
    switch (columns[i].use()) {
      case MdsUse::kMedium:
        EXPECT_EQ(encode_base64(values[i]), value.at("bytes").get<std::string>())
            << columns[i].name;
        break;
      case MdsUse::kText:
        EXPECT_EQ(values[i], value.get<std::string>()) << columns[i].name;
        break;
      case MdsUse::kObject:
        members += value.size();
        for (const auto& [name, item] : value.items()) EXPECT_EQ(made.at(name), item);
        break;
      case MdsUse::kMember:
        ++members;
        EXPECT_TRUE(same(made.at(columns[i].name), value)) << columns[i].name << text;
        break;
    }
  }
  EXPECT_EQ(made.size(), members) << text;
}

class MdsGolden : public testing::TestWithParam<std::string> {};

TEST_P(MdsGolden, HasTheSamplesOfTheWritersOwnReader) {
  const fs::path folder = golden() / ("mds_" + GetParam());
  const MdsIndex index = parse_mds_index(text_of(folder / "index.json")).value();
  const std::string theirs = text_of(golden() / ("mds_" + GetParam() + ".json"));
  const ordered_json samples = parse_json_value(theirs, 64).value();
  std::size_t at = 0;
  for (const MdsShard& shard : index.shards) {
    const MdsFile& stored = shard.zip ? *shard.zip : shard.raw;
    const auto file = ShardFile::open(folder / stored.path).value();
    EXPECT_EQ(file->size(), shard.raw.bytes);
    EXPECT_EQ(fs::file_size(folder / stored.path), stored.bytes);
    EXPECT_TRUE(compare_hashes(*file, shard.raw.hashes, {}));
    const std::string on_disk = text_of(folder / stored.path);
    const MemoryByteSource bytes(std::as_bytes(std::span(on_disk)));
    EXPECT_TRUE(compare_hashes(bytes, stored.hashes, {}));
    const auto& columns = index.columns.at(shard.columns);
    const auto reader = MdsShardReader::open(*file, shard.samples, columns).value();
    for (std::int64_t i = 0; i < shard.samples; ++i) {
      const ordered_json& sample = samples.at(at++);
      EXPECT_EQ(sample["shard"].get<std::string>(), shard.raw.path);
      EXPECT_EQ(sample["number"].get<std::int64_t>(), i);
      expect_same(columns, values_of(*file, reader.sample(i).value()), sample["sample"]);
    }
  }
  EXPECT_EQ(at, samples.size());
}

INSTANTIATE_TEST_SUITE_P(, MdsGolden, testing::Values("every", "zstd", "gz", "texts", "empty"),
                         [](const auto& suite) { return suite.param; });

TEST(MdsHashes, AreAllThatTheGoldenNames) {
  const MdsIndex index = parse_mds_index(text_of(golden() / "mds_every/index.json")).value();
  EXPECT_EQ(index.shards.at(0).raw.hashes.size(), 11U);
}

TEST(MdsHashes, SayWhichDiffers) {
  const std::string folder = golden() / "mds_every";
  const MdsIndex index = parse_mds_index(text_of(folder + "/index.json")).value();
  std::string text = text_of(folder + "/shard.00000.mds");
  text.back() ^= 1;
  for (const StatedHash& hash : index.shards.at(0).raw.hashes) {
    const MemoryByteSource source(std::as_bytes(std::span(text)));
    const Status compared = compare_hashes(source, {hash}, {});
    ASSERT_FALSE(compared) << hash.algorithm;
    EXPECT_THAT(compared.error().message(),
                AllOf(HasSubstr(hash.algorithm), HasSubstr(hash.digest)));
  }
}

TEST(MdsHashes, EndAtAStop) {
  const std::string text = "bytes";
  const MemoryByteSource source(std::as_bytes(std::span(text)));
  std::stop_source stop;
  stop.request_stop();
  const std::vector<StatedHash> hashes = {{"md5", "00"}};
  EXPECT_EQ(compare_hashes(source, hashes, stop.get_token()).error().code(), ErrorCode::kCancelled);
}

// The index of the golden "texts" after a change.
std::string error_after(const std::function<void(json&)>& change) {
  json index = json::parse(text_of(golden() / "mds_texts/index.json"));
  change(index["shards"][0]);
  const auto parsed = parse_mds_index(index.dump());
  return parsed ? "" : parsed.error().message();
}

TEST(MdsIndexErrors, RefusesColumnsByNameWithWhatToDo) {
  const auto encoding = [](const char* name) {
    return error_after([name](json& shard) { shard["column_encodings"][0] = name; });
  };
  EXPECT_THAT(encoding("pkl"),
              AllOf(HasSubstr("column 'text'"), HasSubstr("pickle"), HasSubstr("runs code"),
                    HasSubstr("write the data set again")));
  EXPECT_THAT(encoding("pil"), AllOf(HasSubstr("'pil'"), HasSubstr("as png or jpeg")));
  EXPECT_THAT(encoding("list[pil]"), HasSubstr("as png or jpeg"));
  EXPECT_THAT(encoding("ndarray:float32:3,4"), AllOf(HasSubstr("ndarray"), HasSubstr("array")));
  EXPECT_THAT(encoding("ndarray"), HasSubstr("array"));
  EXPECT_THAT(encoding("list[jpeg]"), HasSubstr("a column for each image"));
  EXPECT_THAT(encoding("jpeg_array"), HasSubstr("a column for each image"));
  EXPECT_THAT(encoding("video"), HasSubstr("not an encoding of MDS 2"));
}

TEST(MdsIndexErrors, NamesWhatIsWrong) {
  const auto set = [](const char* key, const json& value) {
    return error_after([&](json& shard) { shard[key] = value; });
  };
  EXPECT_EQ(error_after([](json&) {}), "");
  EXPECT_THAT(set("version", 1), HasSubstr("version 1 of MDS is not read"));
  EXPECT_THAT(set("format", "json"), HasSubstr("the format 'json' of Mosaic Streaming"));
  EXPECT_THAT(set("samples", -1), HasSubstr("'samples' is no integer"));
  EXPECT_THAT(set("samples", 1.5), HasSubstr("'samples' is no integer"));
  EXPECT_THAT(set("samples", 18446744073709551615ULL), HasSubstr("'samples' is no integer"));
  EXPECT_THAT(set("raw_data", nullptr), HasSubstr("'raw_data': it is no object"));
  EXPECT_THAT(set("column_sizes", {8}), HasSubstr("the column 'text' has values of any size"));
  EXPECT_THAT(set("column_names", {"a", "b"}), HasSubstr("differ in length"));
  EXPECT_THAT(set("column_names", {"a/b"}), HasSubstr("a name that no part can have"));
  EXPECT_THAT(set("zip_data", {{"basename", "a"}, {"bytes", 1}}), HasSubstr("'compression'"));
}

TEST(MdsIndexErrors, RefusesFilesOutsideOfTheDataSet) {
  const auto path = [](const char* name) {
    return error_after([name](json& shard) { shard["raw_data"]["basename"] = name; });
  };
  for (const char* name : {"/etc/passwd", "../a.mds", "a/../../b.mds"}) {
    EXPECT_THAT(path(name), HasSubstr("outside of the data set")) << name;
  }
  EXPECT_THAT(path(""), HasSubstr("no printable text"));
  EXPECT_THAT(path("a\nb"), HasSubstr("no printable text"));
  EXPECT_EQ(path("below/a.mds"), "");
}

TEST(MdsIndexErrors, RefusesHashesThatAreNotComputed) {
  const auto hash = [](const char* algorithm, const char* digest) {
    return error_after([&](json& shard) { shard["raw_data"]["hashes"] = {{algorithm, digest}}; });
  };
  EXPECT_THAT(hash("blake2b", "00"), AllOf(HasSubstr("'blake2b'"), HasSubstr("remove 'blake2b'")));
  EXPECT_THAT(hash("sha1", "00"), HasSubstr("40 hexadecimal digits"));
}

TEST(MdsIndexErrors, RefusesAFileThatIsNamedTwice) {
  json index = json::parse(text_of(golden() / "mds_texts/index.json"));
  index["shards"].push_back(index["shards"][0]);
  EXPECT_THAT(parse_mds_index(index.dump()).error().message(),
              AllOf(HasSubstr("shard 2"), HasSubstr("that of an earlier shard")));
}

TEST(MdsIndexErrors, RefusesOtherDocuments) {
  for (const char* text :
       {"", "[]", "{", "7", "null", R"({"version": 2})", R"({"version": 2, "shards": {}})",
        R"({"version": 2, "shards": [1]})", R"({"version": 2, "shards": [[]]})",
        R"({"shards": []})", R"({"version": 3, "shards": []})",
        R"({"version": 2, "shards": [], "shards": []})"}) {
    EXPECT_FALSE(parse_mds_index(text)) << text;
  }
  const std::string deep(1'000'000, '[');
  EXPECT_FALSE(parse_mds_index(deep));
  EXPECT_TRUE(parse_mds_index(R"({"version": 2, "shards": []})"));
}

// A shard of the golden "texts" after a change; returns the first error of opening or reading it.
std::string shard_error(const std::function<void(std::string&)>& change, std::int64_t samples = 3) {
  std::string text = text_of(golden() / "mds_texts/shard.00000.mds");
  change(text);
  const MemoryByteSource source(std::as_bytes(std::span(text)));
  const std::vector columns = {mds_column("text", "str").value()};
  const auto reader = MdsShardReader::open(source, samples, columns);
  if (!reader) return reader.error().message();
  for (std::int64_t i = 0; i < samples; ++i) {
    if (const auto sample = reader->sample(i); !sample) return sample.error().message();
  }
  return "";
}

TEST(MdsShardErrors, SayWhereAShardIsNotAsItsIndexSays) {
  EXPECT_EQ(shard_error([](std::string&) {}), "");
  EXPECT_THAT(shard_error([](std::string& text) { text.clear(); }), HasSubstr("cut off"));
  EXPECT_THAT(shard_error([](std::string& text) { text.resize(12); }), HasSubstr("cut off within"));
  EXPECT_THAT(shard_error([](std::string& text) { text.pop_back(); }), HasSubstr("its file has"));
  EXPECT_THAT(shard_error([](std::string& text) { text += '\0'; }), HasSubstr("its file has"));
  EXPECT_THAT(shard_error([](std::string&) {}, 2), HasSubstr("3 samples, and its index 2"));
  EXPECT_THAT(shard_error([](std::string& text) { text[4] = 1; }),
              HasSubstr("its samples lie from"));
  EXPECT_THAT(shard_error([](std::string& text) { text[8] = 0; }), HasSubstr("its offsets are"));
  EXPECT_THAT(shard_error([](std::string& text) { text[text.size() - 12] = 9; }),
              HasSubstr("do not fill its"));
}

std::string json_of(const std::vector<MdsColumn>& columns,
                    const std::vector<std::string_view>& values) {
  const auto made = mds_json(columns, values);
  return made ? *made : made.error().message();
}

TEST(MdsJson, PutsColumnsIntoTheObjectOfTheColumnJson) {
  const std::vector columns = {mds_column("id", "uint8").value(),
                               mds_column("json", "str").value()};
  EXPECT_EQ(json_of(columns, {"\x07", R"({"a": 1} )"}), R"({"a": 1, "id": 7})");
  EXPECT_EQ(json_of(columns, {"\x07", "\xEF\xBB\xBF{ }"}), R"({ "id": 7})");
  EXPECT_THAT(json_of(columns, {"\x07", R"({"id": 1})"}), HasSubstr("rename one"));
  EXPECT_THAT(json_of(columns, {"\x07", "[1]"}), HasSubstr("column 'json': its JSON is no object"));
  EXPECT_THAT(json_of(columns, {"\x07", "{"}), HasSubstr("column 'json': its JSON is wrong at"));
}

TEST(MdsJson, RefusesWhatIsNotOfItsEncoding) {
  const auto one = [](const char* encoding, std::string_view value) {
    return json_of({mds_column("x", encoding).value()}, {value});
  };
  EXPECT_THAT(one("str", "\xFF"), HasSubstr("not UTF-8"));
  EXPECT_THAT(one("json", "{]"), HasSubstr("its JSON is wrong"));
  EXPECT_THAT(one("int64", "1234"), HasSubstr("4 bytes"));
  for (const char* text : {"", "x", " 1", "1 2", "\"1\"", "[1]", "0x1", "1\n"}) {
    EXPECT_THAT(one("str_int", text), HasSubstr("is no number")) << text;
  }
  EXPECT_EQ(one("str_decimal", "1E+3"), R"({"x": 1E+3})");
  EXPECT_EQ(one("str_float", "nan"), R"({"x": NaN})");
}

TEST(MdsJson, IsAbsentWhereNoColumnGivesIt) {
  EXPECT_EQ(json_of({mds_column("jpg", "bytes").value()}, {"x"}), "");
}

}  // namespace
}  // namespace isocost
