#include "transport/zmq/keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/scratch_directory.h"

namespace isocost {
namespace {

class Keys : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name) << text;
    return directory_ / name;
  }

  ScratchDirectory directory_ = ScratchDirectory::create("isocost-keys").value();
};

TEST_F(Keys, AreReadBackAndKeptPrivate) {
  const KeyPair keys = generate_keys().value();
  ASSERT_TRUE(write_keys(keys, directory_ / "node"));
  const KeyPair read = read_secret_key(directory_ / "node.secret").value();
  EXPECT_EQ(read.public_key, keys.public_key);
  EXPECT_EQ(read.secret_key, keys.secret_key);
  EXPECT_EQ(read_public_key(directory_ / "node.public").value(), keys.public_key);
  struct stat status{};
  ASSERT_EQ(stat((directory_ / "node.secret").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(Keys, AreNotOverwritten) {
  const KeyPair keys = generate_keys().value();
  ASSERT_TRUE(write_keys(keys, directory_ / "node"));
  EXPECT_EQ(write_keys(keys, directory_ / "node").error().code(), ErrorCode::kAlreadyExists);
}

TEST_F(Keys, AreWrittenBothOrNot) {
  write("node.public", "someone else's");
  EXPECT_FALSE(write_keys(generate_keys().value(), directory_ / "node").has_value());
  EXPECT_FALSE(std::filesystem::exists(directory_ / "node.secret"));
}

TEST_F(Keys, AreNotNamedLikeADirectory) {
  const KeyPair keys = generate_keys().value();
  for (const std::filesystem::path& name :
       {directory_.path(), directory_ / "", directory_ / "new" / ""}) {
    EXPECT_EQ(write_keys(keys, name).error().code(), ErrorCode::kInvalidArgument) << name;
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  EXPECT_TRUE(write_keys(keys, directory_ / "missing" / "node")
                  .error()
                  .message()
                  .ends_with("No such file or directory"));
}

TEST_F(Keys, HalvesOfTwoPairsAreRefused) {
  const KeyPair one = generate_keys().value();
  const KeyPair other = generate_keys().value();
  const auto file =
      write("mixed.secret", "public " + one.public_key + "\nsecret " + other.secret_key + "\n");
  EXPECT_EQ(read_secret_key(file).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(Keys, APublicFileIsNoSecretKey) {
  ASSERT_TRUE(write_keys(generate_keys().value(), directory_ / "node"));
  const auto read = read_secret_key(directory_ / "node.public");
  EXPECT_EQ(read.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(read.error().message().find("node.public"), std::string::npos);
}

// The five characters before the NUL decode.
TEST_F(Keys, AKeyWithANulIsRefused) {
  std::string key = generate_keys().value().public_key;
  key[5] = '\0';
  EXPECT_FALSE(read_public_key(write("nul.public", "public " + key + "\n")).has_value());
  EXPECT_FALSE(read_allowed_keys(write("nul", key + "\n")).has_value());
}

TEST_F(Keys, AnAllowListTakesKeysWithOrWithoutName) {
  const std::string a = generate_keys().value().public_key;
  const std::string b = generate_keys().value().public_key;
  const auto file = write("allowed", "# trainers\npublic " + a + "\n\n" + b + "\r\n");
  EXPECT_EQ(read_allowed_keys(file).value(), (std::vector<std::string>{a, b}));
  EXPECT_FALSE(read_allowed_keys(write("bad", "hello\n")).has_value());
  EXPECT_FALSE(read_allowed_keys(directory_ / "none").has_value());
}

}  // namespace
}  // namespace isocost
