#include "base/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "base/scratch_directory.h"

namespace isocost {
namespace {

class FileDescriptorTest : public testing::Test {
 protected:
  FileDescriptor open(int flags) const {
    return FileDescriptor(::open((scratch_ / "file").c_str(), flags | O_CREAT | O_CLOEXEC, 0600));
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
};

TEST_F(FileDescriptorTest, ReadsAtAnOffsetUpToTheEnd) {
  const FileDescriptor file = open(O_RDWR);
  ASSERT_TRUE(file.write(std::as_bytes(std::span(std::string_view("0123456789")))).has_value());
  std::array<std::byte, 4> four{};
  EXPECT_EQ(file.read_at(2, four).value(), 4U);
  EXPECT_EQ(four[0], std::byte{'2'});
  EXPECT_EQ(file.read_at(8, four).value(), 2U);
  EXPECT_EQ(file.read_at(10, four).value(), 0U);
  EXPECT_EQ(file.read_at(-1, four).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(FileDescriptorTest, SystemErrorsAreReturned) {
  const FileDescriptor file = open(O_RDONLY);
  EXPECT_EQ(file.write(std::array<std::byte, 1>{}).error().code(), ErrorCode::kIo);
  std::array<std::byte, 1> one{};
  EXPECT_EQ(FileDescriptor().read_at(0, one).error().code(), ErrorCode::kIo);
  ASSERT_LT(::open((scratch_ / "nowhere").c_str(), O_RDONLY), 0);
  const Error error = last_file_error(scratch_ / "nowhere", "open");
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_EQ(error.message(),
            (scratch_ / "nowhere").string() + ": cannot open: No such file or directory");
}

TEST_F(FileDescriptorTest, IsClosedOnceByItsLastOwner) {
  int number = -1;
  {
    FileDescriptor first = open(O_RDONLY);
    number = first.get();
    const FileDescriptor second = std::move(first);
    EXPECT_EQ(second.get(), number);
    EXPECT_GE(::fcntl(number, F_GETFD), 0);
  }
  EXPECT_LT(::fcntl(number, F_GETFD), 0);
}

}  // namespace
}  // namespace isocost
