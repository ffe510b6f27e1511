#include "loader/dataset/shard_writing/make_shards.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <variant>

#include "base/counted.h"
#include "base/utf8.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/formats/member_name.h"
#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/records/sample_input.h"
#include "loader/dataset/shard_writing/internal/tar_writer.h"
#include "loader/dataset/shard_writing/internal/unread.h"
#include "loader/dataset/stores/file_source.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

struct OpenPart {
  std::string member;
  std::string text;  // owns the bytes of a part given in place
  std::unique_ptr<ByteSource> source;
};

// The part for which a sample is refused, and the error.
struct Refusal {
  std::string part;
  Error error;
};

bool is_shard_of(const fs::path& path, std::string_view name) {
  std::string file = path.filename().string();
  if (!file.starts_with(name) || file.size() <= name.size()) return false;
  file.erase(0, name.size());
  constexpr std::size_t kDigits = 6;
  const std::size_t digits = std::min(file.find_first_not_of("0123456789", 1), file.size()) - 1;
  if (file.front() != '-' || digits < kDigits) return false;
  const std::string rest = file.substr(1 + digits);
  return rest == ".tar" || rest == ".tar.gz";
}

// Returns the shards in a directory, if it exists. Errors: kAlreadyExists if there are some, unless
// they may be replaced.
Result<std::vector<fs::path>> standing_shards(const fs::path& output, bool force) {
  std::error_code error;
  std::vector<fs::path> standing;
  if (fs::exists(output, error)) {
    for (const auto& entry : fs::directory_iterator(output, error)) {
      if (has_shard_ending(entry.path().filename().string())) standing.push_back(entry.path());
    }
  }
  if (error) return Error(ErrorCode::kIo, output.string() + ": " + error.message());
  if (standing.empty() || force) return standing;
  return Error(ErrorCode::kAlreadyExists,
               output.string() + " already holds " + counted(standing.size(), "shard") +
                   ": name another directory, or replace them with --force");
}

class Maker {
 public:
  Maker(const fs::path& output, const MakeShardsOptions& options)
      : output_(output), options_(options) {}

  // Removes what was written, unless it was kept.
  ~Maker() {
    writer_.reset();
    std::error_code ignored;
    fs::remove_all(staging_, ignored);
    if (kept_) return;
    for (const fs::path& path : made_directories_) remove(path);  // removes empty ones only
  }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;

  Status prepare();
  Status add_all(SampleInput& input);
  Result<MadeShards> keep();

 private:
  static void remove(const fs::path& path) {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
  Status stage();
  Status add(const InputSample& sample, const std::string& location);
  Status count_unread(const InputSample& sample, const std::vector<OpenPart>& parts);
  std::optional<Refusal> refuse(const InputSample& sample, std::vector<OpenPart>& parts);
  std::optional<Refusal> open_part(const InputSample& sample, const InputPart& part,
                                   OpenPart& opened, bool& readable) const;
  Status write(const std::vector<OpenPart>& parts);
  Status end_shard();
  Status take_bad(BadSample bad, const Error& error);
  std::string files_left_out() const;
  std::string shard_name(std::uint64_t number) const;

  const fs::path output_;
  const MakeShardsOptions& options_;
  MadeShards made_;
  UnreadCounts unread_;
  std::unordered_set<std::string> keys_;
  std::unique_ptr<TarWriter> writer_;
  std::int64_t shard_samples_ = 0;
  std::int64_t shard_bytes_ = 0;
  fs::path staging_;  // within the output: shards are moved from there once all are complete
  std::vector<fs::path> replaced_;          // earlier shards of the same name
  std::vector<fs::path> made_directories_;  // the deepest first
  bool kept_ = false;
};

Status Maker::prepare() {
  std::error_code error;
  for (fs::path path = output_; !path.empty() && !fs::exists(path, error);
       path = path.parent_path()) {
    made_directories_.push_back(path);
  }
  fs::create_directories(output_, error);
  if (error) return Error(ErrorCode::kIo, output_.string() + ": " + error.message());
  ISOCOST_ASSIGN(std::vector<fs::path> standing, standing_shards(output_, options_.force));
  ISOCOST_TRY(stage());
  std::erase_if(standing, [&](const fs::path& path) { return !is_shard_of(path, options_.name); });
  replaced_ = std::move(standing);
  return {};
}

Status Maker::stage() {
  staging_ = output_ / (".making-" + options_.name + "-" + std::to_string(getpid()));
  std::error_code error;
  fs::create_directory(staging_, error);
  if (error) return Error(ErrorCode::kIo, staging_.string() + ": " + error.message());
  return {};
}

Status Maker::add_all(SampleInput& input) {
  for (;;) {
    if (options_.stop.stop_requested()) {
      return Error(ErrorCode::kCancelled, "stopped; the shards written so far were removed");
    }
    auto sample = input.next();
    if (!sample) {
      if (sample.error().code() != ErrorCode::kCorrupt) return std::move(sample).error();
      const std::string key = printable_utf8(input.key());
      const std::string context = input.location() + (key.empty() ? "" : ": " + key);
      ISOCOST_TRY(take_bad({input.location(), key, "", sample.error().message()},
                           Error(sample.error()).with_context(context)));
      continue;
    }
    const std::optional<InputSample>& read = *sample;
    if (!read) break;
    ISOCOST_TRY(add(*read, input.location()));
    if (options_.progress) options_.progress(input.done(), input.total(), "writing shards");
  }
  for (const std::string& remark : input.remarks()) {
    log(options_.log, LogLevel::kWarning, remark);
  }
  for (const auto& [extension, files] : input.files_left_out()) {
    unread_.add("file", extension, files);
  }
  return {};
}

Status Maker::add(const InputSample& sample, const std::string& location) {
  std::vector<OpenPart> parts(sample.parts.size());
  if (auto refusal = refuse(sample, parts)) {
    BadSample bad{location, printable_utf8(sample.key), printable_utf8(refusal->part),
                  refusal->error.message()};
    std::string context = location + ": " + bad.key;
    if (!bad.part.empty()) context += ": " + bad.part;
    return take_bad(std::move(bad), Error(refusal->error).with_context(context));
  }
  if (sample.needs_model) ++made_.conversations;
  ISOCOST_TRY(count_unread(sample, parts));
  return write(parts);
}

Status Maker::count_unread(const InputSample& sample, const std::vector<OpenPart>& parts) {
  const bool has_text = std::ranges::any_of(sample.parts, [](const InputPart& part) {
    return format_from_extension(part.name) == MediaFormat::kUtf8;
  });
  std::set<std::string> keys;
  std::set<std::string> unread_parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string& name = sample.parts[i].name;
    const std::string extension = part_extension(name);
    // "meta.json" says more than "json", which is read.
    if (!modality_from_name(name)) unread_parts.insert(extension == "json" ? name : extension);
    if (format_from_extension(name) != MediaFormat::kJson) continue;
    std::string json(static_cast<std::size_t>(parts[i].source->size()), '\0');
    ISOCOST_ASSIGN(const std::size_t read,
                   parts[i].source->read_at(0, std::as_writable_bytes(std::span(json))));
    json.resize(read);
    keys.merge(unread_json_keys(json, sample.own_keys, has_text, options_.reading.weight_key));
  }
  for (const std::string& key : keys) unread_.add("JSON key", key);
  for (const std::string& part : unread_parts) unread_.add("part", part);
  return {};
}

Status Maker::take_bad(BadSample bad, const Error& error) {
  if (!options_.skip_bad) {
    return Error(ErrorCode::kCorrupt, error.message() + " (--skip-bad leaves bad samples out)");
  }
  made_.bad.push_back(std::move(bad));
  return {};
}

std::optional<Refusal> Maker::refuse(const InputSample& sample, std::vector<OpenPart>& parts) {
  if (keys_.contains(sample.key)) {
    return Refusal{"",
                   {ErrorCode::kAlreadyExists,
                    sample.key_is_id ? "the id was used before: ids are unique (--number-keys "
                                       "numbers the samples instead)"
                                     : "the key was used before: keys are unique"}};
  }
  std::set<std::string_view> names;
  bool readable = false;
  for (std::size_t i = 0; i < sample.parts.size(); ++i) {
    const InputPart& part = sample.parts[i];
    if (!names.insert(part.name).second) {
      return Refusal{part.name, {ErrorCode::kAlreadyExists, "the part is named twice"}};
    }
    if (auto refusal = open_part(sample, part, parts[i], readable)) return refusal;
  }
  if (!readable) {
    return Refusal{"", {ErrorCode::kUnsupported, "a sample with no part that Isocost reads"}};
  }
  keys_.insert(sample.key);
  return std::nullopt;
}

std::optional<Refusal> Maker::open_part(const InputSample& sample, const InputPart& part,
                                        OpenPart& opened, bool& readable) const {
  opened.member = sample.key + "." + part.name;
  if (auto reason = refuse_member(sample.key, part.name)) {
    return Refusal{part.name, {ErrorCode::kInvalidArgument, *std::move(reason)}};
  }
  if (const auto* text = std::get_if<std::string>(&part.body)) {
    opened.text = *text;
    opened.source = std::make_unique<MemoryByteSource>(std::as_bytes(std::span(opened.text)));
  } else {
    auto file = FileSource::open(std::get<fs::path>(part.body));
    if (!file) return Refusal{part.name, std::move(file).error()};
    opened.source = *std::move(file);
  }
  if (!modality_from_name(part.name)) return std::nullopt;  // a part for the user's own code
  readable = true;
  auto shape = probe(*opened.source, part.name, options_.limits, options_.reading.weight_key);
  if (!shape) return Refusal{part.name, std::move(shape).error()};
  if (Status agrees = check_modality(part, *shape); !agrees) {
    return Refusal{part.name, std::move(agrees).error()};
  }
  return std::nullopt;
}

Status Maker::write(const std::vector<OpenPart>& parts) {
  std::int64_t bytes = 0;
  for (const OpenPart& part : parts) bytes += tar_member_bytes(part.source->size());
  const bool full = shard_samples_ >= options_.samples_per_shard ||
                    (shard_samples_ > 0 && shard_bytes_ + bytes > options_.bytes_per_shard);
  if (full) ISOCOST_TRY(end_shard());
  if (writer_ == nullptr) {
    ISOCOST_ASSIGN(writer_, TarWriter::create(staging_ / shard_name(made_.shards), options_.gzip));
  }
  for (const OpenPart& part : parts) {
    ISOCOST_TRY_CONTEXT(writer_->add(part.member, *part.source), part.member);
    made_.bytes += static_cast<std::uint64_t>(part.source->size());
  }
  shard_samples_ += 1;
  shard_bytes_ += bytes;
  made_.samples += 1;
  return {};
}

Status Maker::end_shard() {
  ISOCOST_TRY(writer_->finish());
  writer_.reset();
  made_.shards += 1;
  shard_samples_ = 0;
  shard_bytes_ = 0;
  return {};
}

Result<MadeShards> Maker::keep() {
  if (writer_ != nullptr) ISOCOST_TRY(end_shard());
  made_.unread = unread_.take();
  if (made_.samples == 0) {
    return Error(made_.bad.empty() ? ErrorCode::kNotFound : ErrorCode::kCorrupt,
                 "the source holds no good sample: no shard was written" + files_left_out());
  }
  for (const fs::path& path : replaced_) {
    remove(path);
    // A shard that is absent while its index is there would be taken for a lost one.
    remove_index({shard_root(output_, {}), path.filename().string()});
  }
  kept_ = true;
  for (std::uint64_t i = 0; i < made_.shards; ++i) {
    std::error_code error;
    const std::string name = shard_name(i);
    fs::rename(staging_ / name, output_ / name, error);
    if (error) return Error(ErrorCode::kIo, (output_ / name).string() + ": " + error.message());
  }
  return std::move(made_);
}

std::string Maker::files_left_out() const {
  std::string names;
  for (const Unread& unread : made_.unread) {
    if (unread.kind == "file") names += (names.empty() ? "" : ", ") + ("." + unread.name);
  }
  return names.empty() ? "" : "; files that are not read: " + names;
}

std::string Maker::shard_name(std::uint64_t number) const {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "-%06llu", static_cast<unsigned long long>(number));
  return options_.name + digits.data() + (options_.gzip ? ".tar.gz" : ".tar");
}

}  // namespace

Status MakeShardsOptions::validate() const {
  if (name.empty() || name.starts_with('.') || refuse_member_name(name + ".tar") ||
      name.find('/') != std::string::npos) {
    return Error(ErrorCode::kInvalidArgument,
                 "name = '" + printable_utf8(name) + "': a file name without slashes is needed");
  }
  if (samples_per_shard < 1) {
    return Error(
        ErrorCode::kInvalidArgument,
        "samples_per_shard = " + std::to_string(samples_per_shard) + ": must be at least 1");
  }
  if (bytes_per_shard < 1) {
    return Error(ErrorCode::kInvalidArgument,
                 "bytes_per_shard = " + std::to_string(bytes_per_shard) + ": must be at least 1");
  }
  return {};
}

Status check_output(const fs::path& output, const MakeShardsOptions& options) {
  ISOCOST_TRY(options.validate());
  const auto standing = standing_shards(output, options.force);
  return standing ? Status() : Status(standing.error());
}

Result<MadeShards> make_shards(const fs::path& source, const fs::path& output,
                               const MakeShardsOptions& options) {
  ISOCOST_TRY(options.validate());
  ISOCOST_ASSIGN(SampleReading reading, SampleReading::create(options.reading));
  ISOCOST_ASSIGN(const std::unique_ptr<SampleInput> input,
                 SampleInput::open(source, {.media_root = options.media_root,
                                            .number_keys = options.number_keys,
                                            .class_from_directory = options.class_from_directory,
                                            .ignored = std::move(reading.ignored),
                                            .log = options.log}));
  Maker maker(output, options);
  ISOCOST_TRY(maker.prepare());
  ISOCOST_TRY(maker.add_all(*input));
  return maker.keep();
}

}  // namespace isocost
