#include "base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/read_file.h"
#include "base/scratch_directory.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class OutputFileTest : public testing::Test {
 protected:
  std::string text() const { return read_file("the file", scratch_ / "file", 100).value(); }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(scratch_.path())) {
      found.push_back(entry.path().filename().string());
    }
    return found;
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
};

TEST_F(OutputFileTest, AppearsWhenItIsCommitted) {
  ASSERT_TRUE(replace_file(scratch_ / "file", "old").has_value());
  {
    OutputFile file = OutputFile::create(scratch_ / "file").value();
    ASSERT_TRUE(file.write(std::as_bytes(std::span(std::string_view("new")))).has_value());
    EXPECT_EQ(text(), "old");
    OutputFile moved = std::move(file);
    ASSERT_TRUE(moved.commit().has_value());
  }
  EXPECT_EQ(text(), "new");
  EXPECT_THAT(names(), ElementsAre("file"));
}

TEST_F(OutputFileTest, LeavesNothingBehindWithoutACommit) {
  {
    const OutputFile file = OutputFile::create(scratch_ / "file").value();
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(OutputFileTest, LeavesNothingBehindWhereItFails) {
  fs::create_directories(scratch_ / "taken" / "x");
  EXPECT_THAT(replace_file(scratch_ / "taken", "text").error().message(),
              HasSubstr("cannot write " + (scratch_ / "taken").string() + ": "));
  EXPECT_EQ(replace_file(scratch_ / "nowhere" / "file", "text").error().code(), ErrorCode::kIo);
  EXPECT_THAT(names(), ElementsAre("taken"));
}

TEST_F(OutputFileTest, WritersOfOneFileDoNotShareAScratchFile) {
  OutputFile first = OutputFile::create(scratch_ / "file").value();
  OutputFile second = OutputFile::create(scratch_ / "file").value();
  ASSERT_TRUE(first.write(std::as_bytes(std::span(std::string_view("first")))).has_value());
  ASSERT_TRUE(second.write(std::as_bytes(std::span(std::string_view("2nd")))).has_value());
  ASSERT_TRUE(first.commit().has_value());
  EXPECT_EQ(text(), "first");
  ASSERT_TRUE(second.commit().has_value());
  EXPECT_EQ(text(), "2nd");
}

TEST_F(OutputFileTest, OthersMayReadItUnlessTheUmaskForbids) {
  const mode_t before = umask(027);
  const Status written = replace_file(scratch_ / "file", "text");
  umask(before);
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(fs::status(scratch_ / "file").permissions(),
            fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
}

TEST_F(OutputFileTest, WritesToAPipeInsteadOfReplacingIt) {
  const fs::path pipe = scratch_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const FileDescriptor reader(
      open(pipe.c_str(), O_RDWR | O_CLOEXEC));  // does not wait for a writer
  ASSERT_TRUE(replace_file(pipe, "text").has_value());
  std::string text(4, ' ');
  EXPECT_EQ(read(reader.get(), text.data(), text.size()), 4);
  EXPECT_EQ(text, "text");
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_THAT(names(), ElementsAre("pipe"));
}

}  // namespace
}  // namespace isocost
