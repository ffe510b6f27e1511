// Data sets that `energon prepare` prepared (formats/golden/make.py), and others, opened as data
// sets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/scratch_directory.h"
#include "loader/dataset/data_source.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/index/index_file.h"
#include "loader/dataset/records/internal/json_value.h"
#include "loader/dataset/tokens/token_file.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string all_of(const ByteSource& source) {
  std::string bytes(static_cast<std::size_t>(source.size()), '\0');
  bytes.resize(source.read_at(0, std::as_writable_bytes(std::span(bytes))).value());
  return bytes;
}

constexpr std::string_view kTexts =
    "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: ";

class EnergonDataSets : public testing::Test {
 protected:
  // A copy of a golden, since its indexes would lie beside it.
  fs::path copy(const std::string& name) {
    const fs::path golden =
        fs::path(ISOCOST_SOURCE_DIR) / "tests/loader/dataset/formats/golden" / ("energon_" + name);
    fs::copy(golden, scratch_ / name, fs::copy_options::recursive);
    return scratch_ / name;
  }
  static ordered_json theirs(const std::string& name) {
    const fs::path file = fs::path(ISOCOST_SOURCE_DIR) / "tests/loader/dataset/formats/golden" /
                          ("energon_" + name + ".json");
    return parse_json_value(read_file(file), 64).value();
  }
  // A data set of texts whose shard a.tar holds some members.
  fs::path texts(const std::vector<TarFile>& members, const std::string& place, int stated) {
    const fs::path directory = scratch_ / "made";
    write_file(directory / "a.tar", make_tar(members));
    write_file(directory / ".nv-meta/.info.json",
               R"({"shard_counts": {"a.tar": )" + std::to_string(stated) + "}}");
    write_file(directory / ".nv-meta/split.yaml", "split_parts: {train: [a.tar]}\nexclude: []\n");
    write_file(directory / ".nv-meta/dataset.yaml", std::string(kTexts) + "'" + place + "'}\n");
    return directory;
  }
  Result<std::unique_ptr<Dataset>> try_open(const fs::path& directory) {
    log_.clear();
    options_.log = [this](LogLevel, std::string_view text) { log_.emplace_back(text); };
    return Dataset::open(directory.string(), options_);
  }
  std::unique_ptr<Dataset> open(const fs::path& directory) {
    return std::move(try_open(directory)).value();
  }
  static std::vector<std::string> parts_of(const Dataset& dataset, SampleId id) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < dataset.shape(id).parts.size(); ++i) {
      parts.emplace_back(dataset.part_name(id, i));
    }
    return parts;
  }
  static std::vector<std::string> keys_of(const Dataset& dataset) {
    std::vector<std::string> keys;
    for (SampleId id = 0; id < dataset.size(); ++id) keys.emplace_back(dataset.key(id));
    return keys;
  }
  static ordered_json json_of(const Dataset& dataset, SampleId id) {
    return parse_json_value(all_of(*dataset.open_json(id).value()), 64).value();
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  DatasetOptions options_;
  std::vector<std::string> log_;
};

TEST_F(EnergonDataSets, CaptionsAreThoseOfEnergonsReader) {
  const fs::path directory = copy("captions");
  const ordered_json samples = theirs("captions");
  for (int start = 0; start < 2; ++start) {  // the second one reads the indexes
    const auto dataset = open(directory);
    ASSERT_EQ(dataset->size(), samples.size());
    EXPECT_TRUE(dataset->findings().broken.empty());
    EXPECT_TRUE(dataset->bad().empty());
    for (SampleId id = 0; id < dataset->size(); ++id) {
      const ordered_json& sample = samples[static_cast<std::size_t>(id)];
      EXPECT_EQ(dataset->key(id), sample.at("__key__").get<std::string>());
      const int number = std::stoi(std::string(dataset->key(id)));
      EXPECT_THAT(parts_of(*dataset, id), ElementsAre(number % 2 == 0 ? "jpg" : "png", "json"));
      EXPECT_EQ(dataset->shape(id).parts[0].width, sample.at("image").at("size").at(0));
      const std::string caption = sample.at("caption").get<std::string>();
      EXPECT_EQ(dataset->shape(id).parts[1].text_bytes, static_cast<std::int64_t>(caption.size()));
      EXPECT_EQ(json_of(*dataset, id).at("text"), caption);
      // The part that a model sees is the JSON that the trainer receives.
      EXPECT_EQ(all_of(*dataset->open_part(id, 1).value()),
                all_of(*dataset->open_json(id).value()));
    }
  }
  EXPECT_THAT(log_, testing::Contains(HasSubstr("the split 'train'")));
  options_.reading.split = "val";
  EXPECT_THAT(keys_of(*open(directory)), ElementsAre("009", "010", "011"));
}

TEST_F(EnergonDataSets, QuestionsAndAnswersAreConversations) {
  const auto dataset = open(copy("vqa"));
  const ordered_json samples = theirs("vqa");
  ASSERT_EQ(dataset->size(), samples.size());
  for (SampleId id = 0; id < dataset->size(); ++id) {
    const ordered_json& sample = samples[static_cast<std::size_t>(id)];
    EXPECT_EQ(dataset->key(id), sample.at("__key__").get<std::string>());
    EXPECT_THAT(parts_of(*dataset, id), ElementsAre("jpg", "json"));
    const ordered_json turns = json_of(*dataset, id).at("messages");
    ASSERT_EQ(turns.size(), 2U);
    EXPECT_EQ(turns[0].at("role"), "user");
    EXPECT_EQ(turns[0].at("content"),
              ordered_json::parse(R"([{"type": "image"}, {"type": "text", "text": ")" +
                                  sample.at("context").get<std::string>() + "\"}]"));
    EXPECT_EQ(turns[1],
              (ordered_json{{"role", "assistant"}, {"content", sample.at("answers").at(0)}}));
  }
}

TEST_F(EnergonDataSets, TextsThatAreMembersStayAsTheyLie) {
  const auto dataset = open(copy("texts"));
  const ordered_json samples = theirs("texts");
  ASSERT_EQ(dataset->size(), samples.size());
  for (SampleId id = 0; id < dataset->size(); ++id) {
    EXPECT_THAT(parts_of(*dataset, id), ElementsAre("txt"));
    EXPECT_EQ(all_of(*dataset->open_part(id, 0).value()),
              samples[static_cast<std::size_t>(id)].at("text").get<std::string>());
    EXPECT_EQ(dataset->open_json(id).value(), nullptr);
  }
  EXPECT_THAT(log_, testing::Contains(AllOf(HasSubstr("3 parts 'note.txt'"),
                                            HasSubstr("dataset.yaml does not name"))));
}

TEST_F(EnergonDataSets, AShardWithAnotherCountIsDamaged) {
  const std::vector<TarFile> members = {{"0.txt", "a"}, {"1.txt", "b"}};
  const auto fewer = open(texts(members, "txt", 3));
  ASSERT_EQ(fewer->findings().broken.size(), 1U);
  EXPECT_FALSE(fewer->findings().broken[0].lost);
  EXPECT_EQ(fewer->findings().broken[0].samples_when_whole, 3U);
  EXPECT_THAT(
      fewer->findings().broken[0].reason,
      AllOf(HasSubstr("2 samples"), HasSubstr(".info.json says 3"), HasSubstr("energon prepare")));
  EXPECT_EQ(open(texts(members, "txt", 1))->findings().broken.size(), 1U);
  EXPECT_EQ(open(texts(members, "txt", 2))->findings().broken.size(), 0U);
}

TEST_F(EnergonDataSets, ExcludedSamplesCountAsThere) {
  const fs::path directory = texts({{"0.txt", "a"}, {"1.txt", "b"}, {"2.txt", "c"}}, "txt", 3);
  EXPECT_EQ(open(directory)->size(), 3U);
  write_file(directory / ".nv-meta/split.yaml",
             "split_parts: {train: [a.tar]}\nexclude: [a.tar/1, a.tar/2]\n");
  const auto dataset = open(directory);
  EXPECT_THAT(keys_of(*dataset), ElementsAre("0"));
  EXPECT_TRUE(dataset->bad().empty());
  EXPECT_TRUE(dataset->findings().broken.empty());
}

TEST_F(EnergonDataSets, AnotherFieldMapIndexesAnew) {
  const std::vector<TarFile> members = {{"0.json", R"({"a": "one", "b": {"c": [null, "two"]}})"}};
  std::vector<std::uint64_t> fingerprints;
  for (const auto& [place, text] : std::vector<std::pair<std::string, std::string>>{
           {"json[a]", "one"}, {"json[b][c][1]", "two"}, {"json[b][c][0],json[a]", "one"}}) {
    const auto dataset = open(texts(members, place, 1));
    ASSERT_EQ(dataset->size(), 1U) << place;
    EXPECT_EQ(json_of(*dataset, 0).at("text"), text);
    fingerprints.push_back(dataset->fingerprint());
  }
  EXPECT_NE(fingerprints[0], fingerprints[1]);
  EXPECT_NE(fingerprints[0], fingerprints[2]);
}

TEST_F(EnergonDataSets, SamplesWithoutAFieldAreBad) {
  const std::vector<TarFile> members = {
      {"0.json", R"({"a": "one"})"}, {"1.json", R"({"a": 1})"}, {"2.json", "{}"},
      {"3.json", R"({"a": null})"},  {"4.json", "["},           {"5.txt", "x"}};
  const auto dataset = open(texts(members, "json[a]", 6));
  EXPECT_EQ(dataset->size(), 1U);
  ASSERT_EQ(dataset->bad().size(), 5U);
  EXPECT_THAT(dataset->bad()[0].reason,
              HasSubstr("json[a], which field_map.text names, is no text"));
  for (const std::size_t i : {1U, 2U, 4U}) {
    EXPECT_THAT(dataset->bad()[i].reason,
                HasSubstr("it has no json[a], which field_map.text names"));
  }
  EXPECT_THAT(dataset->bad()[3].reason, HasSubstr("its JSON"));
}

TEST_F(EnergonDataSets, CodeIsRefusedByName) {
  const fs::path directory = texts({{"0.txt", "a"}}, "txt", 1);
  write_file(directory / ".nv-meta/dataset.yaml",
             "sample_type: {__module__: megatron.energon, __class__: TextSample}\n"
             "sample_loader: sample_loader.py:load\npart_filter: sample_loader.py:parts\n");
  EXPECT_THAT(try_open(directory).error().message(),
              AllOf(HasSubstr("dataset.yaml"), HasSubstr("sample_loader.py:load"),
                    HasSubstr("which is not run"), HasSubstr("make-shards")));
}

TEST_F(EnergonDataSets, CrudeOnesHaveThePartsOfTheirFilter) {
  const std::vector<TarFile> members = {
      {"0.png", tiny_png(4, 4)}, {"0.txt", "a"}, {"0.json", R"({"text": "b"})"}};
  const fs::path directory = texts(members, "txt", 1);
  const std::string crude = "__module__: megatron.energon\n__class__: CrudeWebdataset\n";
  write_file(directory / ".nv-meta/dataset.yaml", crude);
  EXPECT_THAT(parts_of(*open(directory), 0), ElementsAre("png", "txt"));
  write_file(directory / ".nv-meta/dataset.yaml", crude + "part_filter: [png, json]\n");
  EXPECT_THAT(parts_of(*open(directory), 0), ElementsAre("png", "json"));
}

class PlacesOfText : public EnergonDataSets {
 protected:
  // A shard of one sample with these members.
  std::unique_ptr<Dataset> open_with(const std::vector<TarFile>& members, const std::string& text) {
    write_file(scratch_ / "data/a.tar", make_tar(members));
    options_.reading.text = text;
    return open(scratch_ / "data");
  }
};

TEST_F(PlacesOfText, TheTextOfTheJsonIsMade) {
  const auto dataset = open_with({{"0.png", tiny_png(4, 4)},
                                  {"0.json", R"({"caption": "here", "text": "not", "weight": 0.5,)"
                                             R"( "messages": [], "id": 7})"}},
                                 "json[caption]");
  EXPECT_THAT(parts_of(*dataset, 0), ElementsAre("png", "json"));
  EXPECT_EQ(json_of(*dataset, 0),
            (ordered_json{{"caption", "here"}, {"weight", 0.5}, {"id", 7}, {"text", "here"}}));
  EXPECT_EQ(dataset->shape(0).weight, 0.5F);
  EXPECT_EQ(dataset->shape(0).parts[1].text_bytes, 4);
  EXPECT_THAT(log_, testing::Contains(AllOf(HasSubstr("'text' beside the text that is named"),
                                            testing::Not(HasSubstr("'caption'")))));
}

TEST_F(PlacesOfText, AMemberIsReadAsItLies) {
  const std::vector<TarFile> members = {{"0.caption.txt", "this"},
                                        {"0.json", R"({"messages": [{"role": "user"}], "a": 1})"},
                                        {"0.txt", "other"}};
  const auto dataset = open_with(members, "caption.txt");
  EXPECT_THAT(parts_of(*dataset, 0), ElementsAre("caption.txt"));
  EXPECT_EQ(json_of(*dataset, 0), (ordered_json{{"a", 1}}));
  EXPECT_THAT(parts_of(*open_with(members, "json[none],txt"), 0), ElementsAre("txt"));
  const auto made = open_with({{"0.meta.json", R"({"en": ["word"]})"}, {"0.png", tiny_png(4, 4)}},
                              "meta.json[en][0]");
  EXPECT_THAT(parts_of(*made, 0), ElementsAre("png", "json"));
  EXPECT_EQ(json_of(*made, 0), (ordered_json{{"text", "word"}}));
}

TEST_F(PlacesOfText, JsonWithoutATextStaysAsItLies) {
  const std::string json = R"({ "a":1 ,"big": 123456789012345678901234567890})";
  const auto dataset = open_with({{"0.json", json}, {"0.txt", "x"}}, "txt");
  EXPECT_EQ(all_of(*dataset->open_json(0).value()), json);
}

TEST_F(PlacesOfText, CompressedShardsAreReadAlike) {
  write_file(scratch_ / "data/a.tar.zst",
             zstd(make_tar({{"0.json", R"({"c": "one"})"}, {"1.json", R"({"c": "two"})"}})));
  options_.reading.text = "json[c]";
  const auto dataset = open(scratch_ / "data");
  ASSERT_EQ(dataset->size(), 2U);
  EXPECT_EQ(json_of(*dataset, 1).at("text"), "two");
}

TEST_F(PlacesOfText, TokensOfAnotherPlaceAreStale) {
  std::vector<TokenFileIdentity> identities;
  for (const char* place : {"", "json[a]", "json[b]"}) {
    open_with({{"0.json", R"({"a": "one", "b": "two", "text": "three"})"}}, place);
    const auto index = ShardIndex::map(scratch_ / "data/.isocost/a.tar.idx").value();
    identities.push_back(TokenFileIdentity::of(index->view(), {}));
  }
  EXPECT_THAT(identities[0].difference(identities[1]), HasSubstr("other parts of its samples"));
  EXPECT_THAT(identities[1].difference(identities[2]), HasSubstr("other parts of its samples"));
}

TEST_F(PlacesOfText, EachSourceHasItsOwn) {
  write_file(scratch_ / "a/0.tar", make_tar({{"0.json", R"({"a": "one", "b": "no"})"}}));
  DataSources data{"mixture", {}};
  ReadingOptions a;
  a.text = "json[a]";
  ReadingOptions b;
  b.split = "val";
  b.format = "energon";
  data.sources = {{"a", (scratch_ / "a").string(), {}, a}, {"b", copy("captions").string(), {}, b}};
  const auto dataset = Dataset::open(data, options_).value();
  ASSERT_EQ(dataset->size(), 4U);
  EXPECT_EQ(dataset->shard(0), "a/0.tar");
  EXPECT_EQ(json_of(*dataset, 0).at("text"), "one");
  EXPECT_EQ(dataset->shard(1), "b/shard_3.tar");
  EXPECT_EQ(json_of(*dataset, 1).at("text"), "caption 9");
}

TEST_F(PlacesOfText, MisuseIsRefused) {
  for (const char* text : {"json", "json[", "json[]", ",", "json[a]b,txt"}) {
    options_.reading.text = text;
    EXPECT_THAT(try_open(scratch_ / "data").error().message(),
                AllOf(HasSubstr("text: "), HasSubstr("json[captions][0],txt")))
        << text;
  }
  options_.reading.text = "json[a]";
  write_file(scratch_ / "records/a.jsonl", "{\"text\": \"a\"}\n");
  EXPECT_THAT(try_open(scratch_ / "records").error().message(), HasSubstr("leave it out"));
  EXPECT_THAT(try_open(copy("texts")).error().message(),
              AllOf(HasSubstr("field_map"), HasSubstr("leave it out")));
  fs::copy(fs::path(ISOCOST_SOURCE_DIR) / "tests/loader/dataset/formats/golden/mds_texts",
           scratch_ / "mds");
  EXPECT_THAT(try_open(scratch_ / "mds").error().message(),
              AllOf(HasSubstr("MDS"), HasSubstr("leave it out")));
}

TEST_F(PlacesOfText, FormatRecordsReadsFilesBesideShards) {
  write_file(scratch_ / "data/a.tar", make_tar({{"0.txt", "a"}}));
  write_file(scratch_ / "data/b.jsonl",
             "{\"id\": \"r\", \"messages\": [{\"role\": \"user\", \"content\": \"b\"}]}\n");
  EXPECT_THAT(keys_of(*open(scratch_ / "data")), ElementsAre("0"));
  options_.reading.format = "records";
  EXPECT_THAT(keys_of(*open(scratch_ / "data")), ElementsAre("r"));
}

}  // namespace
}  // namespace isocost
