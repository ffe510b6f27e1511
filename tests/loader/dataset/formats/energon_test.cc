// Documents of Energon's data sets: those that `energon prepare` made (golden/make.py), and others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/read_file.h"
#include "loader/dataset/formats/field_access.h"
#include "loader/dataset/formats/internal/energon_fields.h"
#include "loader/dataset/formats/internal/energon_metadataset.h"
#include "loader/dataset/formats/internal/energon_shards.h"
#include "loader/dataset/formats/internal/meta_value.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = MetaValue::Kind;

std::string golden(const std::string& name) {
  constexpr std::size_t kMaxFile = std::size_t{1} << 20;
  return read_file("file",
                   fs::path(ISOCOST_SOURCE_DIR) / "tests/loader/dataset/formats/golden" / name,
                   kMaxFile)
      .value();
}

MetaValue yaml(std::string_view text) { return parse_meta_yaml(text).value(); }

std::string yaml_error(std::string_view text) {
  const auto value = parse_meta_yaml(text);
  return value ? "" : value.error().message();
}

TEST(MetaYaml, ReadsScalarsAsEnergonDoes) {
  const MetaValue value = yaml(
      "a: 1\nb: '1'\nc: yes\nd: No\ne: null\nf: ~\ng:\nh: 1.5\ni: 1e3\nj: .5\nk: text here\n"
      "l: \"true\"\nm: -7\nn: nan\no: 0x10\np: +3\nq: ''\n");
  const auto is = [&](const char* key, Kind kind, const char* text) {
    EXPECT_TRUE(value.find(key)->is(kind)) << key;
    EXPECT_EQ(value.find(key)->scalar(), text) << key;
  };
  is("a", Kind::kNumber, "1");
  is("b", Kind::kText, "1");
  is("c", Kind::kBoolean, "true");
  is("d", Kind::kBoolean, "false");
  is("e", Kind::kNull, "");
  is("f", Kind::kNull, "");
  is("g", Kind::kNull, "");
  is("h", Kind::kNumber, "1.5");
  is("i", Kind::kNumber, "1e3");
  is("j", Kind::kNumber, ".5");
  is("k", Kind::kText, "text here");
  is("l", Kind::kText, "true");
  is("m", Kind::kNumber, "-7");
  is("n", Kind::kText, "nan");
  is("o", Kind::kText, "0x10");
  is("p", Kind::kNumber, "+3");
  is("q", Kind::kText, "");
  EXPECT_EQ(value.find("m")->whole(), -7);
  EXPECT_EQ(value.find("h")->whole(), std::nullopt);
}

TEST(MetaYaml, ReadsListsMapsAndBlocks) {
  const MetaValue value = yaml("a: [1, {b: c}]\nd:\n- e\n- - f\ng: |\n  two\n  lines\n? h\n: i\n");
  EXPECT_EQ(value.find("a")->items().at(1).find("b")->scalar(), "c");
  EXPECT_EQ(value.find("d")->items().at(1).items().at(0).scalar(), "f");
  EXPECT_EQ(value.find("g")->scalar(), "two\nlines\n");
  EXPECT_EQ(value.find("h")->scalar(), "i");
}

TEST(MetaYaml, RefusesWhatCouldHideSomething) {
  EXPECT_THAT(yaml_error("a: &x 1\nb: *x\n"), AllOf(HasSubstr("line 1"), HasSubstr("anchor")));
  EXPECT_THAT(yaml_error("a: &x [1]\n"), HasSubstr("anchor"));
  EXPECT_THAT(yaml_error("a: &x {b: 1}\n"), HasSubstr("anchor"));
  EXPECT_THAT(yaml_error("a: 1\nb: *x\n"), testing::Not(IsEmpty()));
  EXPECT_THAT(yaml_error("a: !!int 1\n"), HasSubstr("tag"));
  EXPECT_THAT(yaml_error("a: !!python/object:os.system [1]\n"), HasSubstr("tag"));
  EXPECT_THAT(yaml_error("a: !x {b: 1}\n"), HasSubstr("tag"));
  EXPECT_THAT(yaml_error("a: 1\nb: 2\na: 3\n"), AllOf(HasSubstr("line 3"), HasSubstr("'a'")));
  EXPECT_THAT(yaml_error("[a]: 1\n"), HasSubstr("key"));
  EXPECT_THAT(yaml_error("a: 1\n---\nb: 2\n"), HasSubstr("second document"));
  EXPECT_THAT(yaml_error(""), HasSubstr("empty"));
  EXPECT_THAT(yaml_error("a: [1\n"), testing::Not(IsEmpty()));
  EXPECT_THAT(yaml_error("a: \xFF\n"), testing::Not(IsEmpty()));
  EXPECT_THAT(yaml_error(std::string(5000, '[')), testing::Not(IsEmpty()));
  EXPECT_THAT(yaml_error(std::string(40, '[') + std::string(40, ']')), HasSubstr("nested"));
  std::string dashes;
  for (int i = 0; i < 3000; ++i) dashes += "- ";
  EXPECT_THAT(yaml_error(dashes), testing::Not(IsEmpty()));
}

TEST(MetaJson, ReadsAndRefusesLikewise) {
  const MetaValue value =
      parse_meta_json(R"({"a": [1, null, true, "x"], "b": {"c": 2.5}})").value();
  EXPECT_EQ(value.find("a")->items().size(), 4U);
  EXPECT_EQ(value.find("b")->find("c")->scalar(), "2.5");
  for (const char* text : {"", "{", R"({"a": 1, "a": 2})", "[1] 2"}) {
    EXPECT_FALSE(parse_meta_json(text)) << text;
  }
  EXPECT_FALSE(parse_meta_json(std::string(5000, '[')));
}

TEST(EnergonShards, AreThoseThatPrepareWrote) {
  const auto info = parse_meta_json(golden("energon_captions/.nv-meta/.info.json")).value();
  const auto counts = energon_counts(info).value();
  EXPECT_EQ(counts,
            (EnergonCounts{
                {"shard_0.tar", 3}, {"shard_1.tar", 3}, {"shard_2.tar", 3}, {"shard_3.tar", 3}}));
  const auto splits = energon_splits(yaml(golden("energon_captions/.nv-meta/split.yaml"))).value();
  EXPECT_THAT(splits.part("train").value(), ElementsAre("shard_{0..2}.tar"));
  EXPECT_THAT(splits.part("val").value(), ElementsAre("shard_3.tar"));
  EXPECT_THAT(splits.exclude, ElementsAre("shard_{1..1}.tar", "shard_2.tar/007"));
  EXPECT_THAT(splits.part("test").error().message(), HasSubstr("train, val"));
}

TEST(EnergonShards, LeavesOutWhatIsExcluded) {
  const EnergonCounts counts = {{"a.tar", 1}, {"b.tar", 2}, {"d/c.tar", 3}};
  const auto shards = energon_shards(counts, {"d/c.tar", "b.tar", "a.tar"},
                                     {"b.tar", "a.tar/x/y", "d/c.tar/z", "gone.tar"})
                          .value();
  EXPECT_THAT(shards.shards, ElementsAre("d/c.tar", "a.tar"));
  EXPECT_THAT(shards.counts, ElementsAre(3, 1));
  EXPECT_THAT(shards.excluded_keys.at("a.tar"), ElementsAre("x/y"));
  EXPECT_THAT(shards.excluded_keys.at("d/c.tar"), ElementsAre("z"));
  EXPECT_THAT(shards.excludes_nothing, ElementsAre("gone.tar"));
}

TEST(EnergonShards, RefusesSplitsThatDoNotFit) {
  const EnergonCounts counts = {{"a.tar", 1}};
  const auto message = [&](const std::vector<std::string>& part,
                           const std::vector<std::string>& exclude) {
    return energon_shards(counts, part, exclude).error().message();
  };
  EXPECT_THAT(message({"b.tar"}, {}), AllOf(HasSubstr("'b.tar'"), HasSubstr("energon prepare")));
  EXPECT_THAT(message({"a.tar", "a.tar"}, {}), HasSubstr("twice"));
  EXPECT_THAT(message({"a.tar"}, {"a.tar"}), HasSubstr("no shards"));
  EXPECT_THAT(message({"../a.tar"}, {}), HasSubstr("outside of the data set"));
  EXPECT_FALSE(energon_counts(yaml("shard_counts: {a.tar: -1}")));
  EXPECT_FALSE(energon_counts(yaml("shard_counts: {a.tar: x}")));
  EXPECT_FALSE(energon_counts(yaml("shard_counts: {/a.tar: 1}")));
  EXPECT_FALSE(energon_counts(yaml("other: 1")));
  EXPECT_FALSE(energon_splits(yaml("split_parts: {train: a.tar}")));
  EXPECT_FALSE(energon_splits(yaml("split_parts: {train: [[a]]}")));
  EXPECT_FALSE(energon_splits(yaml("split_parts: {}\nother: 1")));
  EXPECT_TRUE(energon_splits(yaml("split_parts: {train: []}\nexclude: null")));
}

TEST(FieldAccess, ReadsWhatEnergonReads) {
  const auto read = [](std::string_view text) { return parse_field_access(text).value(); };
  EXPECT_THAT(read("jpg"), ElementsAre(FieldAccess{"jpg", {}}));
  EXPECT_THAT(read("jpg,png"), ElementsAre(FieldAccess{"jpg", {}}, FieldAccess{"png", {}}));
  EXPECT_THAT(read("json[a][0],txt"),
              ElementsAre(FieldAccess{"json", {"a", "0"}}, FieldAccess{"txt", {}}));
  EXPECT_THAT(read("json[a b]"), ElementsAre(FieldAccess{"json", {"a b"}}));
  EXPECT_EQ(field_access_text(read("json[a][0],txt")), "json[a][0],txt");
  for (const char* odd : {"json[", "json]", "json[]", "[a]", "json[a]b", "json[[a]]", "json[a"}) {
    EXPECT_THAT(read(odd), ElementsAre(FieldAccess{odd, {}})) << odd;
  }
  EXPECT_FALSE(parse_field_access(""));
}

TEST(EnergonFields, AreThoseOfTheDocument) {
  const auto fields = energon_fields(yaml(golden("energon_vqa/.nv-meta/dataset.yaml"))).value();
  EXPECT_EQ(fields.type, EnergonType::kVqa);
  EXPECT_EQ(field_access_text(fields.fields.at("answers")), "json[answers]");
  EXPECT_EQ(energon_fields(yaml(golden("energon_texts/.nv-meta/dataset.yaml"))).value().type,
            EnergonType::kText);
  const auto older = energon_fields(yaml("__module__: megatron.energon\n"
                                         "__class__: CaptioningWebdataset\n"
                                         "field_map: {image: jpg, caption: txt}\n"
                                         "subflavors: {a: 1}\n"))
                         .value();
  EXPECT_EQ(older.type, EnergonType::kCaptioning);
  EXPECT_THAT(older.without_effect, ElementsAre("subflavors"));
  const auto crude =
      energon_fields(yaml("__module__: megatron.energon\n__class__: CrudeWebdataset\n"
                          "part_filter: [jpg, json]\n"))
          .value();
  EXPECT_EQ(crude.type, EnergonType::kCrude);
  EXPECT_THAT(crude.part_filter, ElementsAre("jpg", "json"));
}

TEST(EnergonFields, RefusesCodeAndOtherClassesByName) {
  const auto message = [](std::string_view text) {
    const auto fields = energon_fields(yaml(text));
    return fields ? std::string() : fields.error().message();
  };
  const std::string type = "sample_type: {__module__: megatron.energon, __class__: TextSample}\n";
  EXPECT_THAT(
      message(type + "sample_loader: sample_loader.py:load\npart_filter: x.py:f\n"),
      AllOf(HasSubstr("sample_loader.py:load"), HasSubstr("code"), HasSubstr("make-shards")));
  EXPECT_THAT(message("sample_type: {__module__: mine, __class__: Mine}\nfield_map: {a: b}\n"),
              HasSubstr("'mine.Mine' is code"));
  EXPECT_THAT(message("__module__: mine\n__class__: Mine\n"), HasSubstr("'mine.Mine' is code"));
  EXPECT_THAT(message("sample_type: {__module__: megatron.energon, __class__: OCRSample}\n"),
              AllOf(HasSubstr("'OCRSample'"), HasSubstr("CaptioningSample")));
  EXPECT_THAT(message(type + "field_map: {txt: txt}\n"), HasSubstr("'txt', which is no field"));
  EXPECT_THAT(message(type + "field_map: {}\n"), HasSubstr("lacks 'text'"));
  EXPECT_THAT(message(type), HasSubstr("no 'field_map'"));
  EXPECT_THAT(message(type + "field_map: {text: [a]}\n"), HasSubstr("field_map.text"));
  EXPECT_THAT(message(type + "field_map: {text: txt}\nother: 1\n"), HasSubstr("'other'"));
  EXPECT_THAT(message("__module__: megatron.energon\n__class__: CrudeWebdataset\n"
                      "part_filter: filter.py:f\n"),
              HasSubstr("filter.py:f"));
  EXPECT_FALSE(message("a: 1").empty());
  EXPECT_FALSE(message("[1]").empty());
}

TEST(EnergonMetadataset, BecomesAMixture) {
  const MetaValue document = yaml(R"(
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    blend:
    - {weight: 5, path: ./coco}
    - {weight: 2.5, path: /data/coco, split_part: val, subset: {range: [0%, 50%]}}
    - {path: ./inner.yaml}
  val: {path: ./coco}
  both:
    blend_epochized:
    - {repetitions: 3, path: a}
  joined:
    blend:
    - {join: [{path: a}], joiner: {__module__: x, __class__: y}}
)");
  EXPECT_TRUE(is_energon_metadataset(document));
  EXPECT_EQ(mixture_of_metadataset(document, "train").value(),
            R"(# mixture.toml, beside the metadataset: its paths are relative to this file

[[source]]
name = "coco"
path = "./coco"
split = "train"
proportion = 5

# TODO: it had a subset, which a source has not. Make a data set of those samples.
[[source]]
name = "coco_2"
path = "/data/coco"
split = "val"
proportion = 2.5

# TODO: this path is a metadataset itself. Put its sources here, their proportions times this one.
[[source]]
name = "inner_yaml"
path = "./inner.yaml"
split = "train"
proportion = 1
)");
  EXPECT_THAT(mixture_of_metadataset(document, "both").value(),
              AllOf(HasSubstr("epochs = 3"), testing::Not(HasSubstr("proportion ="))));
  EXPECT_THAT(mixture_of_metadataset(document, "val").value(),
              AllOf(HasSubstr("path = \"./coco\""), testing::Not(HasSubstr("proportion ="))));
  EXPECT_THAT(mixture_of_metadataset(document, "joined").error().message(), HasSubstr("joined"));
  EXPECT_THAT(mixture_of_metadataset(document, "test").error().message(),
              HasSubstr("train, val, both, joined"));
}

TEST(EnergonMetadataset, MayBeOfTheFirstVersion) {
  const MetaValue document = yaml(
      "__module__: megatron.energon\n__class__: Metadataset\n"
      "splits: {train: {datasets: [{weight: 1, path: a}, {weight: 3, path: b}]}}\n");
  EXPECT_TRUE(is_energon_metadataset(document));
  EXPECT_THAT(mixture_of_metadataset(document, "train").value(), HasSubstr("proportion = 3"));
  EXPECT_FALSE(is_energon_metadataset(yaml("a: 1")));
}

}  // namespace
}  // namespace isocost
