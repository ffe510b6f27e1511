#include "loader/dataset/find_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/scratch_directory.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FindSampleTest : public testing::Test {
 protected:
  FindSampleTest() {
    write("a.tar", {{"one.txt", "1"}, {"sub/two.txt", "2"}, {"b.tar/three.txt", "shadowed"}});
    write("more/b.tar", {{"three.txt", "3"}, {"one.txt", "1"}});
    write("bad.tar", {{"cut.png", "no picture"}, {"whole.txt", "4"}});
    dataset_ = Dataset::open((scratch_ / "**/*.tar").string(), {}).value();
  }
  void write(const std::string& name, const std::vector<TarFile>& files) {
    write_file(scratch_ / name, make_tar(files));
  }
  // Returns "shard/key" of what is found, or the message.
  std::string found(const std::string& name) const {
    const auto id = find_sample(*dataset_, name, "DATA");
    if (!id) return id.error().message();
    return std::string(dataset_->shard(*id)) + "|" + std::string(dataset_->key(*id));
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-find").value();
  std::unique_ptr<Dataset> dataset_;
};

TEST_F(FindSampleTest, TakesShardAndKeyOrAKeyThatIsAlone) {
  EXPECT_EQ(found("a.tar/one"), "a.tar|one");
  EXPECT_EQ(found("a.tar/sub/two"), "a.tar|sub/two");
  EXPECT_EQ(found("sub/two"), "a.tar|sub/two");
  EXPECT_EQ(found("more/b.tar/three"), "more/b.tar|three");
  EXPECT_EQ(found("three"), "more/b.tar|three");
  EXPECT_EQ(found("b.tar/three"), "a.tar|b.tar/three") << "as a key, for there is no such shard";
}

TEST_F(FindSampleTest, MeansTheLongestShardThatFits) {
  ScratchDirectory scratch = ScratchDirectory::create("isocost-find").value();
  write_file(scratch / "files" / "x.tar", make_tar({{"y.tar/k.txt", "1"}, {"y.tar/o.txt", "2"}}));
  write_file(scratch / "folders" / "x.tar" / "y.tar", make_tar({{"k.txt", "3"}}));
  DataSources sources{.given = "m.toml", .sources = {}};
  sources.sources.push_back(
      {.name = "s",
       .data = (scratch / "files").string() + "::" + (scratch / "folders/**/y.tar").string()});
  dataset_ = Dataset::open(sources, {}).value();
  EXPECT_EQ(found("s/x.tar/y.tar/k"), "s/x.tar/y.tar|k");
  EXPECT_EQ(found("s/x.tar/y.tar/o"), "s/x.tar|y.tar/o") << "the longer shard has no such key";
}

TEST_F(FindSampleTest, NamesWhatIsAmbiguousBadOrSimilar) {
  EXPECT_THAT(found("one"), AllOf(HasSubstr("2 samples have the key 'one'"), HasSubstr("a.tar/one"),
                                  HasSubstr("more/b.tar/one")));
  EXPECT_THAT(found("bad.tar/cut"), AllOf(HasSubstr("the sample is bad"), HasSubstr("cut")));
  EXPECT_THAT(found("thre"), AllOf(HasSubstr("DATA holds no sample with the key 'thre'"),
                                   HasSubstr("similar: "), HasSubstr("more/b.tar/three")));
  EXPECT_THAT(found("b.tar/threee"), HasSubstr("a.tar/b.tar/three"));
  EXPECT_THAT(found("entirely different from all"),
              AllOf(Not(HasSubstr("similar")), HasSubstr("the first is a.tar/one")));
}

TEST_F(FindSampleTest, TakesNamesAsMessagesPrintThem) {
  ScratchDirectory scratch = ScratchDirectory::create("isocost-find").value();
  write_file(scratch / "x.tar", make_tar({{"caf\xE9.txt", "latin-1"}, {"plain.txt", "s"}}));
  dataset_ = Dataset::open(scratch.path().string(), {}).value();
  EXPECT_EQ(found("x.tar/caf\\xE9"), "x.tar|caf\xE9");
  EXPECT_EQ(found("x.tar/caf\xE9"), "x.tar|caf\xE9");
}

}  // namespace
}  // namespace isocost
