#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/scratch_directory.h"
#include "loader/dataset/formats/tar_listing.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "tests/support/av_media.h"
#include "tests/support/media.h"
#include "tests/support/tar_files.h"

namespace isocost {

using Members = std::vector<std::pair<std::string, std::string>>;

/// Makes shards of records beside which lie a few media.
class RecordsFixture : public testing::Test {
 protected:
  RecordsFixture() {
    std::filesystem::create_directories(scratch_ / "images");
    write_file(scratch_ / "images/a.jpg", jpeg_);
    write_file(scratch_ / "b.png", png_);
    write_file(scratch_ / "s.wav", wav_);
    test::VideoSpec spec;
    spec.frames = 4;
    video_ = text_of(test::make_video(spec));
    write_file(scratch_ / "v.mp4", video_);
    write_file(scratch_ / "junk.png", "this is no picture");
    write_file(scratch_ / "x.tiff", "II*");
    write_file(scratch_ / "bare", png_);
  }

  static std::string text_of(const test::Bytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::filesystem::path out() const { return scratch_ / "out"; }
  std::filesystem::path records(std::string_view text, std::string_view name = "data.jsonl") {
    write_file(scratch_ / name, text);
    return scratch_ / name;
  }
  Result<MadeShards> make(std::string_view text, std::string_view name = "data.jsonl") {
    return make_shards(records(text, name), out(), options_);
  }
  // Names and bodies of the only shard, in order.
  Members members() const {
    const std::string bytes = read_file(out() / "shard-000000.tar");
    const MemoryByteSource source(std::as_bytes(std::span(bytes)));
    auto listing = TarListing::open(source);
    EXPECT_TRUE(listing.has_value());
    Members members;
    while (const auto member = listing->next()) {
      members.emplace_back(member->name, bytes.substr(static_cast<std::size_t>(member->offset),
                                                      static_cast<std::size_t>(member->size)));
    }
    return members;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, body] : members()) names.push_back(name);
    return names;
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  std::string jpeg_ = text_of(test::make_jpeg(32, 16));
  std::string png_ = tiny_png(7, 5);
  std::string wav_ = tiny_wav(1600);
  std::string video_;
  MakeShardsOptions options_;
};

inline std::vector<std::string> unread(const MadeShards& made) {
  std::vector<std::string> lines;
  for (const Unread& item : made.unread) {
    lines.push_back(item.kind + " " + item.name + " " + std::to_string(item.count));
  }
  return lines;
}

}  // namespace isocost
