#include "loader/dataset/stores/remote/internal/certificate_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/scratch_directory.h"

namespace isocost {
namespace {

using ::testing::HasSubstr;

Environment environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  };
}

class CertificateFileTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const {
    const std::string path = (scratch_ / name).string();
    std::ofstream(path) << "a certificate";
    return path;
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-certificates").value();
};

TEST_F(CertificateFileTest, IsThatOfTheOptionFirst) {
  const auto found = find_certificate_file(
      file("option"),
      environment({{"SSL_CERT_FILE", file("ssl")}, {"AWS_CA_BUNDLE", file("aws")}}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, (scratch_ / "option").string());
  EXPECT_EQ(found->sources, found->path + " (ca_file)");
}

TEST_F(CertificateFileTest, IsThatOfTheVariablesInTheirOrder) {
  const auto ssl = find_certificate_file(
      "", environment({{"SSL_CERT_FILE", file("ssl")}, {"AWS_CA_BUNDLE", file("aws")}}));
  ASSERT_TRUE(ssl);
  EXPECT_EQ(ssl->path, (scratch_ / "ssl").string());
  const auto aws = find_certificate_file("", environment({{"AWS_CA_BUNDLE", file("aws")}}));
  ASSERT_TRUE(aws);
  EXPECT_EQ(aws->path, (scratch_ / "aws").string());
}

TEST_F(CertificateFileTest, IsTheSystemsOtherwise) {
  const auto found = find_certificate_file("", environment({}));
  ASSERT_TRUE(found);
  EXPECT_THAT(found->sources, HasSubstr("SSL_CERT_FILE (not set), AWS_CA_BUNDLE (not set), /etc/"));
}

TEST_F(CertificateFileTest, MustBeThereIfItIsNamed) {
  const auto option = find_certificate_file((scratch_ / "no.pem").string(), environment({}));
  ASSERT_FALSE(option);
  EXPECT_EQ(option.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(option.error().message(), HasSubstr("ca_file: "));
  EXPECT_THAT(option.error().message(), HasSubstr("no.pem"));
  const auto variable =
      find_certificate_file("", environment({{"AWS_CA_BUNDLE", (scratch_ / "no.pem").string()}}));
  ASSERT_FALSE(variable);
  EXPECT_EQ(variable.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(variable.error().message(), HasSubstr("AWS_CA_BUNDLE: "));
}

}  // namespace
}  // namespace isocost
