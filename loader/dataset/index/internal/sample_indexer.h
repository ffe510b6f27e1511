#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "decode/probe.h"
#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/index/index_format.h"

namespace isocost {

/// Makes samples of parts, which it probes, and writes them into the contents of an index: good
/// samples, bad ones with their first fault, and remarks. Single-thread.
class SampleIndexer {
 public:
  /// `contents` and `reading` must outlive the object.
  SampleIndexer(IndexContents& contents, const ProbeLimits& limits, const SampleReading& reading)
      : contents_(contents), limits_(limits), reading_(reading) {}

  /// Returns whether the sample that is open has this key.
  bool has_open(std::string_view key) const { return current_ && current_->sample.key == key; }
  /// Begins a sample, and ends the one before. Returns false if an earlier one had the key.
  bool open(const std::string& key);
  /// Sets the record of the open sample, and its location for the reasons of faults.
  void set_record(ByteRange record, std::string location) {
    current_->sample.record = record;
    current_->location = std::move(location);
  }
  /// Adds a part to the open sample: probes its bytes, unless no model sees it. Skips parts that
  /// are left out on purpose, and those after the first fault.
  void add(const std::string& part, const ByteSource& bytes, PartSource source,
           std::int64_t offset);
  /// Notes that a model sees a member of the open sample's JSON.
  void see_key(std::string key) { current_->seen_keys.push_back(std::move(key)); }
  /// Makes the open sample bad, if it is not so already.
  void refuse(std::string_view part, std::string reason);
  /// Returns whether parts of this name are left out on purpose, and counts the part if so.
  bool ignores(std::string_view part);
  /// Returns the shape of the last part that was added; null if it was refused or left out.
  const PartShape* last_shape() const { return last_ ? &*last_ : nullptr; }
  /// Names the file of the parts that follow, for the reasons of faults; empty: none.
  void set_file(std::string file) { current_->file = std::move(file); }
  /// Returns the key of the open sample.
  const std::string& key() const { return current_->sample.key; }
  bool is_bad() const { return current_ && current_->bad.has_value(); }
  void remark(RemarkKind kind, std::string_view name, std::string_view detail = "");
  /// Drops the open sample.
  void discard() { current_.reset(); }
  /// Ends the open sample, if there is one.
  void close();
  /// Writes the remarks. To be called last.
  void finish();

 private:
  // A sample whose parts are being read. After its first fault, later parts are skipped.
  struct OpenSample {
    IndexedSample sample;
    std::unordered_set<std::string> names;  // of all parts that Isocost reads
    std::vector<std::string> texts;         // names of those that are text
    bool has_medium = false;
    bool is_conversation = false;
    std::vector<std::string> unread_keys;  // of its JSON
    std::vector<std::string> seen_keys;    // of its JSON, from which a text was taken
    std::string location;                  // of its record
    std::string file;                      // of the part that is being read
    std::optional<IndexedBad> bad;
  };
  void add_json(const ByteSource& bytes, IndexedPart part);
  void leave_out(std::string_view part);
  void prefer_text();
  void remark_keys();

  IndexContents& contents_;
  const ProbeLimits limits_;
  const SampleReading& reading_;
  std::unique_ptr<OpenSample> current_;
  std::optional<PartShape> last_;
  std::unordered_set<std::string> keys_;
  // Counts by kind, name and detail.
  std::map<std::tuple<RemarkKind, std::string, std::string>, std::uint64_t> remarks_;
};

}  // namespace isocost
