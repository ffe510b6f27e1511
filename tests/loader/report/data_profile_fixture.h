#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/scratch_directory.h"
#include "loader/report/data_profile.h"
#include "tests/support/tar_files.h"

namespace isocost {

// Fifty captions, every tenth with a picture, and a sound.
class DataProfileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<TarFile> files;
    for (int i = 0; i < 50; ++i) {
      const std::string key = "<s" + std::to_string(100 + i) + ">";
      if (i % 10 == 3) files.push_back({key + ".png", tiny_png(560, 280)});
      if (i == 7) files.push_back({key + ".wav", tiny_wav(16000)});
      files.push_back({key + ".txt", std::string(static_cast<std::size_t>(1 + i), 'a')});
    }
    write_file(scratch_ / "shards/a.tar", make_tar(files));
    dataset_ = Dataset::open(scratch_ / "shards", {}).value();
    options_.global_batch_size = 16;
    options_.ranks = 2;
    options_.microbatches = 2;
    options_.batches = 8;
  }
  DataProfile profile() const {
    return make_data_profile(*dataset_, scratch_ / "shards", options_).value();
  }
  std::string refusal() const {
    const auto refused = make_data_profile(*dataset_, scratch_ / "shards", options_);
    return refused ? "accepted" : refused.error().message();
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  std::unique_ptr<Dataset> dataset_;
  DataProfileOptions options_;
};

}  // namespace isocost
