#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "base/scratch_directory.h"
#include "loader/dataset/stores/remote/http_client.h"
#include "tests/support/fault_server.h"

namespace isocost {

/// A server with faults, which the tests of a suite share, over the files "a.bin" (200,000 bytes),
/// "empty.bin" and "with space.bin" (10 bytes).
class FaultServerFixture : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 200'000;

  static void SetUpTestSuite() {
    // A proxy of this machine knows nothing of the tests' servers.
    for (const char* variable : {"http_proxy", "all_proxy", "ALL_PROXY"}) ::unsetenv(variable);
    shared_ = std::make_unique<Shared>();
  }
  static void TearDownTestSuite() { shared_.reset(); }

  void SetUp() override {
    set_rules({});
    server().clear_log();
  }

  static const FaultServer& server() { return shared_->server; }
  static const std::string& content() { return shared_->content; }
  static std::filesystem::path scratch() { return shared_->scratch.path(); }
  static std::string url(const std::string& path = "a.bin") { return server().address() + path; }
  static void set_rules(std::initializer_list<nlohmann::json> rules) {
    server().set_rules(nlohmann::json(std::vector<nlohmann::json>(rules)));
  }
  static nlohmann::json requests() { return server().requests(); }

 private:
  struct Shared {
    ScratchDirectory scratch = ScratchDirectory::create("isocost-http-test").value();
    std::string content = make_files(scratch.path() / "files");
    FaultServer server = FaultServer::start(scratch / "files", scratch.path()).value();
  };

  static std::string make_files(const std::filesystem::path& directory) {
    std::string content;
    for (std::size_t i = 0; i < kBytes; ++i) content += static_cast<char>(i * 131 + i / 251);
    std::filesystem::create_directory(directory);
    std::ofstream(directory / "a.bin", std::ios::binary) << content;
    std::ofstream(directory / "empty.bin").flush();
    std::ofstream(directory / "with space.bin", std::ios::binary) << content.substr(0, 10);
    return content;
  }

  inline static std::unique_ptr<Shared> shared_;
};

}  // namespace isocost
