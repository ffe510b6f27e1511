#include "loader/dataset/records/sample_input.h"

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <utility>

#include "base/counted.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/formats/member_name.h"
#include "loader/dataset/records/internal/json_records.h"
#include "loader/dataset/records/internal/record_forms.h"
#include "loader/dataset/records/made_part.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

class Records final : public SampleInput {
 public:
  Records(std::unique_ptr<JsonRecords> records, const fs::path& root, bool number_keys,
          RecordForm form = RecordForm::kUnknown)
      : records_(std::move(records)), forms_(root, number_keys, form) {}

  Result<std::optional<InputSample>> next() override {
    forms_.forget_key();
    ISOCOST_ASSIGN(std::optional<std::string> record, records_->next());
    if (!record) return std::optional<InputSample>();
    ISOCOST_ASSIGN(InputSample sample, forms_.read(*std::move(record), records_->number()));
    return std::optional(std::move(sample));
  }
  std::string location() const override { return records_->location(); }
  RecordBytes record() const override { return records_->record(); }
  RecordForm form() const override { return forms_.form(); }
  const std::string& key() const override { return forms_.key(); }
  std::vector<std::string> remarks() const override { return forms_.remarks(); }
  const std::map<std::string, std::uint64_t>& files_left_out() const override { return none_; }
  std::uint64_t done() const override { return records_->done(); }
  std::uint64_t total() const override { return records_->total(); }

 private:
  std::unique_ptr<JsonRecords> records_;
  RecordForms forms_;
  std::map<std::string, std::uint64_t> none_;
};

// Returns the directory at which paths of media start. Errors: kNotFound.
Result<fs::path> media_root(const fs::path& source, const SampleInputOptions& options) {
  fs::path root = options.media_root.empty() ? source.parent_path() : options.media_root;
  std::error_code error;
  if (!options.media_root.empty() && !fs::is_directory(root, error)) {
    return Error(ErrorCode::kNotFound,
                 "media_root: " + root.string() + " is no directory: name that of the media files");
  }
  return root;
}

Result<std::unique_ptr<SampleInput>> open_records(const fs::path& source,
                                                  const SampleInputOptions& options) {
  if (options.class_from_directory) {
    return Error(ErrorCode::kInvalidArgument,
                 "class_from_directory: " + source.string() + " is no directory");
  }
  ISOCOST_ASSIGN(const fs::path root, media_root(source, options));
  ISOCOST_ASSIGN(auto records, JsonRecords::open(source));
  return std::unique_ptr<SampleInput>(
      std::make_unique<Records>(std::move(records), root, options.number_keys));
}

class Tree final : public SampleInput {
 public:
  static Result<std::unique_ptr<SampleInput>> open(const fs::path& root,
                                                   const SampleInputOptions& options);

  Result<std::optional<InputSample>> next() override;
  std::string location() const override { return root_.string(); }
  RecordBytes record() const override { return {}; }
  RecordForm form() const override { return RecordForm::kUnknown; }
  const std::string& key() const override { return key_; }
  std::vector<std::string> remarks() const override { return {}; }
  const std::map<std::string, std::uint64_t>& files_left_out() const override { return left_out_; }
  std::uint64_t done() const override { return at_; }
  std::uint64_t total() const override { return samples_.size(); }

 private:
  Status add_class(InputSample& sample) const;
  void add(InputSample sample);

  fs::path root_;
  bool class_from_directory_ = false;
  std::vector<InputSample> samples_;
  std::map<std::string, std::uint64_t> left_out_;
  std::size_t at_ = 0;
  std::string key_;
};

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool is_read(const InputPart& part) { return modality_from_name(part.name).has_value(); }

Result<std::unique_ptr<SampleInput>> Tree::open(const fs::path& root,
                                                const SampleInputOptions& options) {
  std::map<std::string, std::map<std::string, fs::path>> found;
  std::size_t nameless = 0;
  std::map<std::string, std::uint64_t> left_out;
  std::error_code error;
  auto entry = fs::recursive_directory_iterator(root, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
      continue;
    }
    std::error_code unreadable;
    const bool is_file = entry->is_regular_file(unreadable);
    if (unreadable)
      return Error(ErrorCode::kIo, entry->path().string() + ": " + unreadable.message());
    if (!is_file) continue;
    if (entry->path().filename() == "metadata.jsonl") {
      return Error(ErrorCode::kInvalidArgument,
                   entry->path().string() +
                       " may hold the captions of its directory: give that file itself, or move it "
                       "away");
    }
    const std::string name = entry->path().lexically_relative(root).generic_string();
    const MemberName split = split_member_name(name);
    if (split.part.empty()) {
      ++nameless;
      continue;
    }
    if (options.ignored.contains(split.part)) {
      ++left_out[part_extension(split.part)];
      continue;
    }
    found[std::string(split.key)][std::string(split.part)] = entry->path();
  }
  if (error) return Error(ErrorCode::kIo, root.string() + ": " + error.message());
  if (nameless > 0) {
    log(options.log, LogLevel::kWarning,
        root.string() + ": " + counted(nameless, "file") + " without an extension left out");
  }
  auto tree = std::make_unique<Tree>();
  tree->root_ = root;
  tree->class_from_directory_ = options.class_from_directory;
  tree->left_out_ = std::move(left_out);
  for (auto& [key, parts] : found) {
    InputSample sample;
    sample.key = key;
    for (auto& [part, path] : parts) sample.parts.push_back({part, std::move(path)});
    tree->add(std::move(sample));
  }
  return std::unique_ptr<SampleInput>(std::move(tree));
}

// Adds a sample, unless it consists of files that stand alone and that no model could see.
void Tree::add(InputSample sample) {
  if (std::any_of(sample.parts.begin(), sample.parts.end(), is_read)) {
    samples_.push_back(std::move(sample));
    return;
  }
  for (const InputPart& part : sample.parts) {
    left_out_[part.name.substr(part.name.rfind('.') + 1)] += 1;
  }
}

Result<std::optional<InputSample>> Tree::next() {
  if (at_ == samples_.size()) return std::optional<InputSample>();
  InputSample sample = std::move(samples_[at_++]);
  key_ = sample.key;
  if (class_from_directory_) ISOCOST_TRY(add_class(sample));
  return std::optional(std::move(sample));
}

Status Tree::add_class(InputSample& sample) const {
  ISOCOST_ASSIGN(std::string json, make_class_part(sample.key));
  const bool has_json = std::any_of(
      sample.parts.begin(), sample.parts.end(),
      [](const InputPart& part) { return format_from_extension(part.name) == MediaFormat::kJson; });
  if (has_json) {
    return Error(ErrorCode::kCorrupt, "has JSON of its own: write the class there");
  }
  sample.parts.push_back({"json", std::move(json)});
  return {};
}

Result<std::unique_ptr<SampleInput>> open_tree(const fs::path& source,
                                               const SampleInputOptions& options) {
  if (options.number_keys) {
    return Error(ErrorCode::kInvalidArgument,
                 "number_keys: " + source.string() + " is a directory, whose files tell the keys");
  }
  if (options.media_root.empty()) return Tree::open(source, options);
  return Error(ErrorCode::kInvalidArgument,
               "media_root: " + source.string() + " is a directory, whose files are the media");
}

}  // namespace

Result<std::unique_ptr<SampleInput>> SampleInput::open(const fs::path& source,
                                                       const SampleInputOptions& options) {
  std::error_code error;
  if (fs::is_directory(source, error)) return open_tree(source, options);
  if (fs::is_regular_file(source, error)) return open_records(source, options);
  return Error(ErrorCode::kNotFound,
               source.string() + (fs::exists(source, error)
                                      ? " is neither a file of JSON records nor a directory"
                                      : " does not exist: name a file of JSON records (a manifest, "
                                        "conversations, captions) or a directory"));
}

Result<std::unique_ptr<SampleInput>> SampleInput::open_range(
    const fs::path& path, std::shared_ptr<const ByteSource> bytes, const RecordRange& range,
    const SampleInputOptions& options) {
  ISOCOST_ASSIGN(const fs::path root, media_root(path, options));
  ISOCOST_ASSIGN(auto records, JsonRecords::open_range(path, std::move(bytes), range));
  return std::unique_ptr<SampleInput>(
      std::make_unique<Records>(std::move(records), root, options.number_keys, range.form));
}

Status check_modality(const InputPart& part, const PartShape& content) {
  if (!part.modality || content.modality == *part.modality) return {};
  return corrupt_record("is " + std::string(modality_name(content.modality)) + " (" +
                        std::string(format_name(content.format)) +
                        "), but its record names it as " +
                        std::string(modality_name(*part.modality)));
}

}  // namespace isocost
