#include "loader/dataset/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "base/counted.h"
#include "base/fingerprint.h"
#include "base/mutex.h"
#include "decode/shape/tokens.h"
#include "loader/dataset/index/checked_shard.h"
#include "loader/dataset/index/index_file.h"
#include "loader/dataset/index/read_ahead_ranges.h"
#include "loader/dataset/stores/shard_file.h"
#include "loader/dataset/tokens/token_file.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

// A cut of a sample at the end of one of its turns.
struct Cut {
  TurnEnd end;
  TokenCut at;
  std::int64_t label_tokens = 0;
};

struct Shard {
  fs::path path;
  std::string name;
  std::unique_ptr<ShardIndex> index;
  std::shared_ptr<const TokenFile> tokens;  // null: the shard's own text is used
  std::vector<std::uint32_t> kept;          // usable samples; empty: all are
  bool all_kept = true;
  std::map<std::uint64_t, Cut> cuts;  // by the sample's number in the shard

  const Cut* cut_of(std::uint64_t sample) const {
    const auto found = cuts.find(sample);
    return found == cuts.end() ? nullptr : &found->second;
  }
  std::uint64_t size() const { return all_kept ? index->view().samples() : kept.size(); }
  std::uint64_t local(std::uint64_t i) const { return all_kept ? i : kept[i]; }
};

bool is_shard_name(const std::string& name) {
  return !name.starts_with('.') &&
         (name.ends_with(".tar") || name.ends_with(".tar.gz") || name.ends_with(".tgz"));
}

struct Listing {
  std::vector<Shard> shards;   // by name
  std::vector<BadSample> bad;  // entries with a shard's name that are not shards
};

std::string why_no_file(const fs::directory_entry& entry) {
  std::error_code ignored;
  if (entry.is_directory(ignored)) return "a directory; pack it, or give it another name";
  if (!entry.exists(ignored)) return "a broken link; repair or remove it";
  return "not a file; remove it, or give it another name";
}

Result<Listing> list_shards(const fs::path& directory) {
  std::error_code failed;
  if (!fs::is_directory(directory, failed)) {
    return Error(ErrorCode::kNotFound, fmt::format("{}: no such directory; give the one that holds "
                                                   "the shards (*.tar, *.tar.gz, *.tgz)",
                                                   directory.string()));
  }
  Listing listing;
  fs::directory_iterator entry(directory, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (!is_shard_name(name)) continue;
    if (!entry->is_regular_file(ignored)) {
      listing.bad.push_back({std::move(name), "", "", why_no_file(*entry)});
      continue;
    }
    Shard shard;
    shard.path = entry->path();
    shard.name = std::move(name);
    listing.shards.push_back(std::move(shard));
  }
  if (failed) {
    return Error(ErrorCode::kIo,
                 fmt::format("{}: cannot be listed: {}", directory.string(), failed.message()));
  }
  if (listing.shards.empty() && listing.bad.empty()) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("{}: no shards (*.tar, *.tar.gz, *.tgz) in it; 'isocost make-shards' "
                             "writes them",
                             directory.string()));
  }
  std::sort(listing.shards.begin(), listing.shards.end(),
            [](const Shard& a, const Shard& b) { return a.name < b.name; });
  std::sort(listing.bad.begin(), listing.bad.end(),
            [](const BadSample& a, const BadSample& b) { return a.shard < b.shard; });
  return listing;
}

// Opens or builds the indexes of all shards on threads of its own.
class Indexing {
 public:
  Indexing(std::vector<Shard>& shards, const fs::path& directory, const DatasetOptions& options)
      : shards_(shards),
        options_(options),
        directories_(index_directories(directory, options.index_dir)) {}

  Status run();

 private:
  void work();
  void finish_one(const Shard& shard);
  void fail(Error error);

  std::vector<Shard>& shards_;
  const DatasetOptions& options_;
  const std::vector<fs::path> directories_;
  std::atomic<std::size_t> next_ = 0;
  Mutex mutex_;
  std::atomic<std::uint64_t> done_ = 0;
  std::optional<Error> error_ ISOCOST_GUARDED_BY(mutex_);
};

Status Indexing::run() {
  std::size_t workers = options_.workers;
  if (workers == 0) workers = std::max(std::thread::hardware_concurrency(), 1U);
  // Workers for plain shards read a little here and there, and wait for a disk or a network, so
  // more of them than cores help. A compressed shard takes a core, and memory for its inflated
  // bytes.
  constexpr std::size_t kLeastOfPlain = 8;
  const auto is_plain = [](const Shard& shard) { return shard.path.extension() == ".tar"; };
  if (options_.workers == 0 && std::ranges::all_of(shards_, is_plain)) {
    workers = std::max(workers, kLeastOfPlain);
  }
  workers = std::min(workers, shards_.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < workers; ++i) threads.emplace_back([this] { work(); });
    work();
  }
  const MutexLock lock(mutex_);
  if (error_) return *std::move(error_);
  return {};
}

void Indexing::work() {
  for (std::size_t i = next_++; i < shards_.size(); i = next_++) {
    Shard& shard = shards_[i];
    auto index = open_or_build_index(
        {shard.path, directories_, options_.limits, options_.log, options_.stop});
    if (!index) {
      fail(std::move(index).error());
      return;
    }
    shard.index = *std::move(index);
    finish_one(shard);
  }
}

void Indexing::finish_one(const Shard& shard) {
  const std::uint64_t done = ++done_;
  if (options_.progress) options_.progress(done, shards_.size(), shard.name);
}

void Indexing::fail(Error error) {
  next_ = shards_.size();
  const MutexLock lock(mutex_);
  if (!error_) error_ = std::move(error);
}

// Logs which tokens were made with options other than the default.
void log_options(const std::vector<Shard>& shards, const LogSink& sink) {
  std::map<std::string_view, std::size_t> made_with;
  for (const Shard& shard : shards) ++made_with[shard.tokens->identity().tokenizer.options];
  for (const auto& [options, count] : made_with) {
    if (options.empty()) continue;
    log(sink, LogLevel::kInfo,
        fmt::format("the tokens of {} of {} were made with isocost tokenize {}", count,
                    counted(shards.size(), "shard"), options));
  }
}

// Opens the tokens of all shards, made by the tokenizer of `model`.
Status open_tokens(std::vector<Shard>& shards, const fs::path& directory,
                   const DatasetOptions& options) {
  ISOCOST_ASSIGN(const TokenizerIdentity tokenizer, TokenizerIdentity::of_model(options.model));
  const std::string remedy =
      "; isocost tokenize " + data_arguments(directory, options) + " makes them";
  for (Shard& shard : shards) {
    const IndexView& view = shard.index->view();
    auto tokens = TokenFile::map(token_file_name(shard.index->file()));
    if (!tokens) {
      const bool none = tokens.error().code() == ErrorCode::kNotFound;
      return Error(ErrorCode::kNotFound,
                   shard.path.string() +
                       (none ? ": its text has not been made into tokens"
                             : ": its tokens cannot be read: " + tokens.error().message()) +
                       remedy);
    }
    shard.tokens = *std::move(tokens);
    const std::string difference =
        shard.tokens->identity().difference(TokenFileIdentity::of(view, tokenizer));
    if (difference.empty()) continue;
    return Error(ErrorCode::kNotFound,
                 shard.path.string().append(": its tokens ").append(difference).append(remedy));
  }
  log_options(shards, options.log);
  return {};
}

// Hash of a sample's key, with the shard and the sample that have it.
struct KeyOccurrence {
  std::uint64_t hash;
  std::uint32_t shard;
  std::uint32_t sample;
  auto operator<=>(const KeyOccurrence&) const = default;
};

// Returns how many of a sample's media of this modality a cut keeps.
std::uint32_t media_before(const TurnEnd& end, Modality modality) {
  return modality == Modality::kText ? 0 : end.media.at(static_cast<std::size_t>(modality) - 1);
}

// A sample's tokens, whole or cut; keeps their file mapped.
template <typename Entry>
class EntrySource final : public ByteSource {
 public:
  EntrySource(std::shared_ptr<const TokenFile> file, Entry entry)
      : file_(std::move(file)), entry_(std::move(entry)) {}
  std::int64_t size() const override { return entry_.size(); }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> to) const override {
    return entry_.read_at(offset, to);
  }

 private:
  const std::shared_ptr<const TokenFile> file_;
  const Entry entry_;
};

// Opens the tokens of a sample, up to its cut if it has one.
Result<std::unique_ptr<ByteSource>> open_entry(const Shard& shard, std::uint64_t sample) {
  const std::span<const std::byte> whole = shard.tokens->entry(sample);
  const Cut* cut = shard.cut_of(sample);
  if (cut == nullptr) {
    return std::make_unique<EntrySource<MemoryByteSource>>(shard.tokens, MemoryByteSource(whole));
  }
  ISOCOST_ASSIGN(CutTokens tokens, CutTokens::create(whole, cut->at));
  return std::make_unique<EntrySource<CutTokens>>(shard.tokens, std::move(tokens));
}

class IndexedDataset final : public Dataset {
 public:
  explicit IndexedDataset(Listing listing)
      : shards_(std::move(listing.shards)), bad_(std::move(listing.bad)) {}
  void finish(const DatasetOptions& options);

  std::uint64_t size() const override { return first_.back(); }
  SampleShape shape(SampleId id) const override { return shape_of(locate(id)); }
  std::string_view key(SampleId id) const override;
  std::string_view shard(SampleId id) const override { return locate(id).shard->name; }
  std::string_view part_name(SampleId id, std::size_t part) const override;
  Result<std::unique_ptr<ByteSource>> open_part(SampleId id, std::size_t part) const override;
  Result<std::unique_ptr<ByteSource>> open_json(SampleId id) const override;
  Status check_index(SampleId id) const override;
  void read_ahead(SampleId id) const override;
  std::int64_t read_ahead_bytes(SampleId id) const override;
  std::size_t open_shards() const override { return cache_.max_open(); }
  const std::vector<BadSample>& bad() const override { return bad_; }
  std::size_t shards() const override { return shards_.size(); }
  const std::string& shard_name(std::size_t i) const override { return shards_[i].name; }
  Result<bool> is_as_last_checked(std::size_t i, const std::stop_token& stop) const override;
  std::size_t indexes_not_kept() const override;
  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  struct Location {
    const Shard* shard;
    const IndexView* view;
    std::uint64_t sample;
  };
  Location locate(SampleId id) const;
  static SampleShape shape_of(const Location& at) {
    return shape_of(at, at.shard->cut_of(at.sample));
  }
  static std::optional<std::uint64_t> indexed_part(const Location& at, std::size_t part);
  static std::vector<ByteRange> ranges_of(const Location& at) {
    return read_ahead_ranges(*at.view, at.sample, at.shard->tokens != nullptr);
  }
  Result<std::shared_ptr<const ShardFile>> open(const Shard& shard) const;
  std::vector<KeyOccurrence> sorted_keys() const;
  std::optional<KeyOccurrence> first_with_key(const std::vector<KeyOccurrence>& occurrences,
                                              std::size_t begin, std::size_t i) const;
  void collect_bad();
  // Samples to be dropped from each shard; `bad` has the reasons.
  using Dropped = std::vector<std::vector<std::uint32_t>>;
  void find_repeated_keys(Dropped& dropped);
  void find_without_tokens(Dropped& dropped);
  void find_unusable(const DatasetOptions& options, Dropped& dropped);
  void log_cuts(const LogSink& sink) const;
  static std::string truncate(const DatasetOptions& options, Shard& shard, std::uint32_t sample);
  static SampleShape shape_of(const Location& at, const Cut* cut);
  void keep_all_but(Dropped dropped);
  void number_samples();

  std::vector<Shard> shards_;
  std::vector<std::uint64_t> first_;  // id of each shard's first sample, and the size
  std::vector<BadSample> bad_;
  std::uint64_t fingerprint_ = 0;
  mutable ShardCache cache_;
};

void IndexedDataset::finish(const DatasetOptions& options) {
  collect_bad();
  Dropped dropped(shards_.size());
  find_repeated_keys(dropped);
  find_without_tokens(dropped);
  if (options.why_unusable) find_unusable(options, dropped);
  log_cuts(options.log);
  keep_all_but(std::move(dropped));
  number_samples();
}

void IndexedDataset::collect_bad() {
  for (const Shard& shard : shards_) {
    const IndexView& view = shard.index->view();
    for (std::uint64_t i = 0; i < view.bad(); ++i) {
      bad_.push_back({shard.name, std::string(view.bad_key(i)), std::string(view.bad_part(i)),
                      std::string(view.bad_reason(i))});
    }
  }
}

// Returns the keys' hashes, sorted: sixteen bytes per sample, while the data set is being opened.
std::vector<KeyOccurrence> IndexedDataset::sorted_keys() const {
  std::vector<KeyOccurrence> occurrences;
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    const IndexView& view = shards_[s].index->view();
    for (std::uint32_t i = 0; i < view.samples(); ++i) {
      occurrences.push_back({Fingerprint::of(view.key(i)), s, i});
    }
  }
  std::sort(occurrences.begin(), occurrences.end());
  return occurrences;
}

// Returns the first of occurrences[begin .. i) with the key of occurrences[i]; all have the same
// hash.
std::optional<KeyOccurrence> IndexedDataset::first_with_key(
    const std::vector<KeyOccurrence>& occurrences, std::size_t begin, std::size_t i) const {
  const auto key_of = [&](const KeyOccurrence& at) {
    return shards_[at.shard].index->view().key(at.sample);
  };
  for (std::size_t k = begin; k < i; ++k) {
    if (key_of(occurrences[k]) == key_of(occurrences[i])) return occurrences[k];
  }
  return std::nullopt;
}

// Finds keys repeated across shards; indexing has found those within a shard.
void IndexedDataset::find_repeated_keys(Dropped& dropped) {
  const auto occurrences = sorted_keys();
  // Repeated keys, each with the first sample that has the key.
  std::vector<std::pair<KeyOccurrence, KeyOccurrence>> repeats;
  std::size_t begin = 0;  // begin of the run of equal hashes
  for (std::size_t i = 1; i < occurrences.size(); ++i) {
    if (occurrences[begin].hash != occurrences[i].hash) begin = i;
    if (const auto first = first_with_key(occurrences, begin, i))
      repeats.emplace_back(occurrences[i], *first);
  }
  std::sort(repeats.begin(), repeats.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.shard, a.first.sample) < std::pair(b.first.shard, b.first.sample);
  });
  for (const auto& [repeat, first] : repeats) {
    const Shard& shard = shards_[repeat.shard];
    const std::string key(shard.index->view().key(repeat.sample));
    bad_.push_back({shard.name, key, "",
                    fmt::format("the key '{}' also occurs in {}; give each sample its own key", key,
                                shards_[first.shard].name)});
    dropped[repeat.shard].push_back(repeat.sample);
  }
}

void IndexedDataset::find_without_tokens(Dropped& dropped) {
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    const Shard& shard = shards_[s];
    const std::uint64_t samples = shard.tokens ? shard.index->view().samples() : 0;
    for (std::uint32_t i = 0; i < samples; ++i) {
      const std::string_view reason = shard.tokens->reason(i);
      if (reason.empty()) continue;
      dropped[s].push_back(i);
      bad_.push_back(
          {shard.name, std::string(shard.index->view().key(i)), "", std::string(reason)});
    }
  }
}

void IndexedDataset::find_unusable(const DatasetOptions& options, Dropped& dropped) {
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    Shard& shard = shards_[s];
    const IndexView& view = shard.index->view();
    std::sort(dropped[s].begin(), dropped[s].end());
    const std::vector<std::uint32_t> without = dropped[s];
    for (std::uint32_t i = 0; i < view.samples(); ++i) {
      if (std::binary_search(without.begin(), without.end(), i)) continue;
      std::string reason = options.why_unusable(shape_of({&shard, &view, i}));
      if (!reason.empty() && options.truncate && shard.tokens) {
        reason = truncate(options, shard, i);
      }
      if (reason.empty()) continue;
      dropped[s].push_back(i);
      bad_.push_back({.shard = shard.name,
                      .key = std::string(view.key(i)),
                      .part = "",
                      .reason = std::move(reason),
                      .over_limit = true});
    }
  }
}

void IndexedDataset::log_cuts(const LogSink& sink) const {
  std::size_t cuts = 0;
  for (const Shard& shard : shards_) cuts += shard.cuts.size();
  if (cuts == 0) return;
  log(sink, LogLevel::kInfo,
      counted(cuts, "sample") + " cut at the end of a turn, to keep the limits of a microbatch");
}

// Cuts a sample that is too long at the last end of a turn at which it can be used. Returns why
// there is none.
std::string IndexedDataset::truncate(const DatasetOptions& options, Shard& shard,
                                     std::uint32_t sample) {
  auto tokens = decode_tokens(shard.tokens->entry(sample));
  if (!tokens) return tokens.error().message();
  std::string reason;
  auto labels = std::count(tokens->labelled.begin(), tokens->labelled.end(), true);
  auto last = tokens->labelled.end();
  std::size_t turns = tokens->turns.size();
  for (; turns > 0; --turns) {
    const TurnEnd& turn = tokens->turns[turns - 1];
    const auto end = tokens->labelled.begin() + static_cast<std::ptrdiff_t>(turn.ids);
    labels -= std::count(end, last, true);
    last = end;
    if (labels == 0) break;
    const auto weights =
        std::ranges::partition_point(
            tokens->weights, [&](const WeightedIds& each) { return each.begin < turn.ids; }) -
        tokens->weights.begin();
    const Cut cut{
        .end = turn,
        .at = {turn.ids, static_cast<std::uint32_t>(turns), static_cast<std::uint32_t>(weights)},
        .label_tokens = labels};
    reason = options.why_unusable(shape_of({&shard, &shard.index->view(), sample}, &cut));
    if (!reason.empty()) continue;
    shard.cuts.emplace(sample, cut);
    return "";
  }
  if (reason.empty()) {
    return options.why_unusable(shape_of({&shard, &shard.index->view(), sample}, nullptr)) +
           " (no turn to cut it at has labels before it)";
  }
  if (turns == 0) return "cut to its first turns it still " + reason;
  return "cut to its first turns with labels it still " + reason +
         ", and cut before these it has no labels, as after turns of weight 0";
}

void IndexedDataset::keep_all_but(Dropped dropped) {
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    if (dropped[s].empty()) continue;
    std::sort(dropped[s].begin(), dropped[s].end());
    shards_[s].all_kept = false;
    std::vector<std::uint32_t> all(shards_[s].index->view().samples());
    std::iota(all.begin(), all.end(), 0U);
    std::set_difference(all.begin(), all.end(), dropped[s].begin(), dropped[s].end(),
                        std::back_inserter(shards_[s].kept));
  }
}

void IndexedDataset::number_samples() {
  Fingerprint fingerprint;
  first_ = {0};
  for (const Shard& shard : shards_) {
    first_.push_back(first_.back() + shard.size());
    fingerprint.add(shard.name);
    fingerprint.add(static_cast<std::uint64_t>(shard.index->view().identity().stamp.bytes));
    fingerprint.add(shard.index->view().content_hash());
    fingerprint.add(shard.size());
    if (shard.tokens) {
      const TokenizerIdentity& tokenizer = shard.tokens->identity().tokenizer;
      fingerprint.add(tokenizer.tokenizer);
      fingerprint.add(tokenizer.chat_template);
      fingerprint.add(tokenizer.placeholders);
      fingerprint.add(tokenizer.text_settings);
      fingerprint.add(tokenizer.version);
      fingerprint.add(tokenizer.options);
    }
    for (std::uint64_t i = 0; i < shard.size(); ++i) {
      fingerprint.add(shard.index->view().key(shard.local(i)));
    }
    for (const auto& [sample, cut] : shard.cuts) {
      fingerprint.add(sample);
      fingerprint.add(std::uint64_t{cut.end.ids});
    }
  }
  fingerprint_ = fingerprint.value();
}

IndexedDataset::Location IndexedDataset::locate(SampleId id) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), id);
  const auto s = static_cast<std::size_t>(after - first_.begin()) - 1;
  const Shard& shard = shards_[s];
  return {&shard, &shard.index->view(), shard.local(id - first_[s])};
}

// Returns the number in the index of a part of `shape`; nothing for the part of tokens.
std::optional<std::uint64_t> IndexedDataset::indexed_part(const Location& at, std::size_t part) {
  const std::uint64_t first = at.view->first_part(at.sample);
  if (!at.shard->tokens) return first + part;
  if (part == 0) return std::nullopt;
  const Cut* cut = at.shard->cut_of(at.sample);
  std::array<std::uint32_t, kModalities> seen{};
  std::uint64_t i = first;
  for (std::size_t others = 0;; ++i) {
    const Modality modality = at.view->part_shape(i).modality;
    const std::uint32_t nth = seen.at(static_cast<std::size_t>(modality))++;
    if (modality == Modality::kText) continue;
    if (cut != nullptr && nth >= media_before(cut->end, modality)) continue;
    if (++others == part) return i;
  }
}

std::size_t IndexedDataset::indexes_not_kept() const {
  const auto count = std::count_if(shards_.begin(), shards_.end(),
                                   [](const Shard& shard) { return !shard.index->kept(); });
  return static_cast<std::size_t>(count);
}

SampleShape IndexedDataset::shape_of(const Location& at, const Cut* cut) {
  SampleShape shape;
  std::array<std::uint32_t, kModalities> seen{};
  shape.weight = at.view->weight(at.sample);
  if (at.shard->tokens) shape.parts.push_back(at.shard->tokens->shape(at.sample));
  if (cut != nullptr) {
    PartShape& text = shape.parts.front();
    text.text_tokens = cut->end.ids;
    text.text_tokens -= cut->end.placeholders;
    text.label_tokens = cut->label_tokens;
    text.weighted = cut->at.weights > 0;
    text.encoded_bytes = encoded_tokens_bytes(cut->at.ids, cut->at.turns, cut->at.weights);
  }
  const std::uint64_t end = at.view->first_part(at.sample + 1);
  for (std::uint64_t i = at.view->first_part(at.sample); i < end; ++i) {
    const PartShape part = at.view->part_shape(i);
    const std::uint32_t nth = seen.at(static_cast<std::size_t>(part.modality))++;
    if (at.shard->tokens && part.modality == Modality::kText) continue;
    if (cut != nullptr && nth >= media_before(cut->end, part.modality)) continue;
    shape.parts.push_back(part);
  }
  return shape;
}

std::string_view IndexedDataset::key(SampleId id) const {
  const Location at = locate(id);
  return at.view->key(at.sample);
}

std::string_view IndexedDataset::part_name(SampleId id, std::size_t part) const {
  const Location at = locate(id);
  const auto indexed = indexed_part(at, part);
  return indexed ? at.view->part_name(*indexed) : "tokens";
}

Result<std::shared_ptr<const ShardFile>> IndexedDataset::open(const Shard& shard) const {
  const IndexView& view = shard.index->view();
  auto file = cache_.get(shard.path, {view.identity().stamp, view.content_hash()});
  // The next start must index the shard as it is by then.
  if (!file && file.error().code() == ErrorCode::kUnavailable) shard.index->remove_file();
  return file;
}

Result<bool> IndexedDataset::is_as_last_checked(std::size_t i, const std::stop_token& stop) const {
  const Shard& shard = shards_[i];
  ISOCOST_ASSIGN(const auto file, open(shard));
  // A shard without a kept index has no place for a record either.
  fs::path record = shard.index->file();
  if (!shard.index->kept()) return true;
  auto same = isocost::is_as_last_checked(*file, record.replace_extension(".checked"), stop);
  if (!same) return std::move(same).error().with_context(shard.path.string());
  return same;
}

Result<std::unique_ptr<ByteSource>> IndexedDataset::open_part(SampleId id, std::size_t part) const {
  const Location at = locate(id);
  const auto indexed = indexed_part(at, part);
  if (!indexed) return open_entry(*at.shard, at.sample);
  ISOCOST_ASSIGN(auto shard, open(*at.shard));
  return std::make_unique<MemberSource>(std::move(shard), at.view->part_offset(*indexed),
                                        at.view->part_shape(*indexed).encoded_bytes);
}

Result<std::unique_ptr<ByteSource>> IndexedDataset::open_json(SampleId id) const {
  const Location at = locate(id);
  const std::int64_t bytes = at.view->json_bytes(at.sample);
  if (bytes == 0) return std::unique_ptr<ByteSource>();
  ISOCOST_ASSIGN(auto shard, open(*at.shard));
  return std::make_unique<MemberSource>(std::move(shard), at.view->json_offset(at.sample), bytes);
}

Status IndexedDataset::check_index(SampleId id) const {
  const Shard& shard = *locate(id).shard;
  if (shard.tokens && shard.tokens->damaged()) {
    return Error(ErrorCode::kCorrupt, shard.tokens->path().string() +
                                          ": it was cut while it was in use; run isocost tokenize "
                                          "again");
  }
  const ShardIndex& index = *shard.index;
  if (!index.damaged()) return {};
  return Error(ErrorCode::kCorrupt,
               index.file().string() +
                   ": it was cut while it was in use; start again, and the shard "
                   "is indexed anew");
}

void IndexedDataset::read_ahead(SampleId id) const {
  const Location at = locate(id);
  const std::vector<ByteRange> ranges = ranges_of(at);
  if (ranges.empty()) return;
  cache_.read_ahead(at.shard->path, {at.view->identity().stamp, at.view->content_hash()}, ranges);
}

std::int64_t IndexedDataset::read_ahead_bytes(SampleId id) const {
  std::int64_t bytes = 0;
  for (const ByteRange& range : ranges_of(locate(id))) bytes += range.end - range.begin;
  return bytes;
}

}  // namespace

std::string data_arguments(const fs::path& directory, const DatasetOptions& options) {
  std::string arguments = directory.string();
  if (!options.model.empty()) arguments += " --model " + options.model.string();
  if (!options.index_dir.empty()) arguments += " --index-dir " + options.index_dir.string();
  return arguments;
}

Result<std::unique_ptr<Dataset>> Dataset::open(const fs::path& directory,
                                               const DatasetOptions& options) {
  ISOCOST_ASSIGN(auto listing, list_shards(directory));
  ISOCOST_TRY(Indexing(listing.shards, directory, options).run());
  if (!options.model.empty()) {
    ISOCOST_TRY(open_tokens(listing.shards, directory, options));
  }
  auto dataset = std::make_unique<IndexedDataset>(std::move(listing));
  dataset->finish(options);
  return std::unique_ptr<Dataset>(std::move(dataset));
}

}  // namespace isocost
