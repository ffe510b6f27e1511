#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/result.h"
#include "decode/probe.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"
#include "loader/dataset/catalogue/bad_sample.h"
#include "loader/dataset/catalogue/remarks.h"
#include "loader/dataset/catalogue/sample_id.h"
#include "loader/dataset/catalogue/shard_facts.h"
#include "loader/dataset/catalogue/shard_findings.h"
#include "loader/dataset/catalogue/weighted_samples.h"
#include "loader/dataset/data_source.h"
#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/stores/cache/object_cache.h"
#include "loader/dataset/stores/remote/store_counts.h"
#include "loader/dataset/stores/stores.h"
#include "loader/dataset/tokens/shape_check.h"

namespace isocost {

/// The bytes of a sample's shard on a server, with those of its parts at hand or on their way, as
/// long as it lives. Null for a shard on a disk. See Dataset::read_ahead.
using BytesAhead = std::shared_ptr<const ByteSource>;

struct DatasetOptions {
  ProbeLimits limits;
  ReadingOptions reading = {};  ///< Those of a data text; sources have their own.
  std::filesystem::path
      index_dir;  ///< Directory of the indexes; empty: ".isocost" where the names begin.
  /// A model's directory: each sample's text is one part, its tokens (see token_pass.h), before its
  /// other parts. Empty: all parts are as the shard has them.
  std::filesystem::path model = {};
  StoreOptions stores = {};  ///< How servers are reached.
  std::size_t workers = 0;   ///< Shards indexed at once; 0: one per core, of plain tars at least 8.
  ProgressSink progress;
  LogSink log;
  std::stop_token stop = {};  ///< Ends indexing when requested.
  /// Returns why a sample of this shape cannot be used, for a limit among the options; empty: it
  /// can be. Called once for each sample that has no other fault, on several threads at once. Null:
  /// all can be used.
  ShapeCheck check_shape = {};
  /// Hash of all that the answers of check_shape depend on; 0: it is not known, and nothing is kept
  /// of this start for the next one.
  std::uint64_t check_identity = 0;
  /// Whether samples with tokens that check_shape refuses are cut at the end of a turn, the last
  /// at which it accepts them. Media of the turns that are cut off are no parts of the sample.
  bool truncate = false;
  /// Shards of a window, whose samples are drawn together; 0: samples are drawn from all shards. A
  /// cache then keeps pieces of 16 MiB, and must have room for two windows of each source.
  std::size_t window_shards = 0;
  /// Whether samples are read again and again, for which compressed shards on servers need a cache.
  bool reads_again = false;
  /// Whether the log says, before anything is read, how many bytes the shards on servers have.
  bool log_server_bytes = false;
  /// Whether the log names what no model sees.
  bool log_remarks = true;
  /// Whether the tables of starts with other options, or of other shards, are removed from the
  /// directory of indexes.
  bool prune_tables = false;
};

/// Returns the arguments with which commands open a data set in the same way, for messages: "DATA
/// --model DIR --index-dir DIR --ignore-parts LIST --weight-key KEY --max-decoded-pixels N",
/// as a shell takes them, without options that have their defaults.
std::string data_arguments(std::string_view data, const DatasetOptions& options);

/// A source of an open data set: its samples have the ids from `first` on.
struct DatasetSource {
  std::string name;  ///< Empty: the only one.
  SampleId first = 0;
  std::uint64_t size = 0;  ///< Usable samples.
  std::uint64_t fingerprint =
      0;                   ///< Hash of its samples, whatever its name: see Dataset::fingerprint.
  std::uint64_t bad = 0;   ///< Samples that were found bad before training.
  ShardFindings findings;  ///< Faults of its shards.
};

/// WebDataset shards (*.tar, *.tar.gz, *.tgz, *.tar.zst, *.tzst), read through an index per shard.
/// A missing or stale index is built in one pass over the shard's headers. The indexes, and tokens,
/// of a few thousand shards stay open: those that were used last. Immutable once open; const-safe.
class Dataset {
 public:
  /// Opens a data set: a directory (not those below), a shard, a pattern as in
  /// "shards/{000..099}.tar" or "**/*.tar", a list of these with "::" between them, or a file with
  /// one of these on each line (see docs/data.md). Blocks while shards are indexed. Bad samples are
  /// listed in `bad`, broken shards in `findings`. Errors: kInvalidArgument (names, reading,
  /// a cache without room for the windows, none for compressed shards on servers), kNotFound (no
  /// directory, no shards, no tokens of the model), kIo, kCancelled; those of
  /// TokenizerIdentity::of_model.
  static Result<std::unique_ptr<Dataset>> open(const std::string& data,
                                               const DatasetOptions& options);
  /// Opens several data sets as one, in this order. The shards of a source that has a name are
  /// called `source/shard`. Errors: those of one, with the source's name.
  static Result<std::unique_ptr<Dataset>> open(const DataSources& data,
                                               const DatasetOptions& options);
  virtual ~Dataset() = default;

  /// Returns the number of usable samples; those that were found bad before training have no id.
  virtual std::uint64_t size() const = 0;
  /// Returns what the index says of a sample, whose shard it opens. Without parts if the shard
  /// cannot be opened: a sample has at least one.
  virtual SampleShape shape(SampleId id) const = 0;
  /// Returns the same. Errors: those of check_index, also if the shard could be opened since.
  Result<SampleShape> checked_shape(SampleId id) const;
  /// Returns the sample's key; empty if its shard cannot be opened.
  virtual std::string key(SampleId id) const = 0;
  virtual std::string_view shard(SampleId id) const = 0;
  /// Returns the number of the sample's shard, below shards().
  virtual std::size_t shard_number(SampleId id) const = 0;
  /// Returns the name of a part; empty if the shard cannot be opened.
  virtual std::string part_name(SampleId id, std::size_t part) const = 0;
  /// Opens one part for reading. The source keeps the shard open while it lives. `ahead` is what
  /// `read_ahead` has returned for the sample; null: the part is read when it is asked for.
  virtual Result<std::unique_ptr<ByteSource>> open_part(SampleId id, std::size_t part,
                                                        const BytesAhead& ahead) const = 0;
  Result<std::unique_ptr<ByteSource>> open_part(SampleId id, std::size_t part) const {
    return open_part(id, part, nullptr);
  }
  /// Opens the sample's JSON part, which need not be one of the parts of `shape`: those are
  /// what a model sees. Null if the sample has no JSON part. `ahead`: see `open_part`.
  virtual Result<std::unique_ptr<ByteSource>> open_json(SampleId id,
                                                        const BytesAhead& ahead) const = 0;
  Result<std::unique_ptr<ByteSource>> open_json(SampleId id) const {
    return open_json(id, nullptr);
  }
  /// Checks that the values that the data set gave for the sample come from an undamaged index and
  /// undamaged tokens. Errors: kCorrupt with the file that was cut while it was in use;
  /// kUnavailable and kIo if the shard's index or tokens cannot be opened, or have been replaced.
  virtual Status check_index(SampleId id) const = 0;
  /// Begins to read the sample's parts ahead, each up to 32 MiB, or 8 MiB for a video, since seldom
  /// all of it is decoded. Of a shard on a disk asks the operating system, and returns null; of one
  /// on a server begins to fetch, until `stop` is requested or the last reference to what it
  /// returns is gone. Blocks while it opens the shard; failures are left to `open_part`. Asks for
  /// nothing of a compressed shard, which is inflated when it is opened: one on a server here,
  /// within `stop`.
  virtual BytesAhead read_ahead(SampleId id, const std::stop_token& stop) const = 0;
  /// Returns whether a source lies on a server, so that what is read ahead takes memory.
  virtual bool reads_servers() const = 0;
  /// Returns whether the sample's shard lies on a server.
  virtual bool is_on_server(SampleId id) const = 0;
  /// Returns what was asked of each server since the data set was opened, by the server's name.
  virtual std::vector<std::pair<std::string, StoreCounts>> server_counts() const = 0;
  /// Returns what the cache has done since the data set was opened; nothing without a cache.
  virtual std::optional<CacheCounts> cache_counts() const = 0;
  /// Returns the number of usable samples in plain shards on servers, which are asked for one by
  /// one.
  virtual std::uint64_t samples_on_servers() const = 0;
  /// Returns the number of bytes that `read_ahead` asks for, only from the index.
  virtual std::int64_t read_ahead_bytes(SampleId id) const = 0;
  /// Has the cache keep a shard on a server whole, where it keeps pieces (see
  /// DatasetOptions::window_shards): `i` < shards(). Blocks until it has, or fails, which is left
  /// to `open_part`.
  virtual void hold_shard(std::size_t i, const std::stop_token& stop) const = 0;
  /// Returns the number of shards that stay open at once.
  virtual std::size_t open_shards() const = 0;

  /// Returns the sources, in the order of their ids: one or more.
  virtual const std::vector<DatasetSource>& sources() const = 0;
  virtual const std::vector<BadSample>& bad() const = 0;
  /// Returns the faults of whole shards; what can be read of broken ones is used.
  virtual const ShardFindings& findings() const = 0;
  /// Returns what no model sees, and media that are not what their names say.
  virtual const std::vector<Remark>& remarks() const = 0;
  virtual const WeightedSamples& weighted() const = 0;
  /// Returns a format among the data set's media that needs_worker; nothing if none does.
  virtual std::optional<MediaFormat> format_that_needs_worker() const = 0;
  virtual std::size_t shards() const = 0;
  /// Returns the name of a shard, its path below the directory where the names of its entry begin:
  /// `i` < shards().
  virtual const std::string& shard_name(std::size_t i) const = 0;
  /// Returns the number of a shard's usable samples, whose ids follow one another, and follow those
  /// of the shards before it: `i` < shards(). Opens nothing.
  virtual std::uint64_t usable_samples(std::size_t i) const = 0;
  /// Returns what a shard has: `i` < shards().
  virtual ShardFacts shard_facts(std::size_t i) const = 0;
  /// Looks for the tokens that are kept of a shard, also where the data set was opened without a
  /// model. `tokenizer`: the one that must have made them; null: any.
  virtual ShardTokenFacts shard_tokens(std::size_t i, const TokenizerIdentity* tokenizer) const = 0;
  /// Reads a shard whole, and returns whether it has the bytes of the last call, in this run or an
  /// earlier one. True if its size or modification time differ from then, or there was no call.
  /// Blocks; const-safe. Errors: those of open_part; kCancelled.
  virtual Result<bool> is_as_last_checked(std::size_t i, const std::stop_token& stop) const = 0;
  /// Returns the number of shards that will be indexed again at the next start: their index could
  /// not be written, or the shard failed or changed while it was indexed.
  virtual std::size_t indexes_not_kept() const = 0;
  /// Returns a hash of the shards' names, sizes, contents and samples; equal for equal data sets.
  virtual std::uint64_t fingerprint() const = 0;
};

}  // namespace isocost
