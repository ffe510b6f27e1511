#include "loader/dataset/token_pass.h"

#include <optional>
#include <utility>

#include "base/output_file.h"
#include "base/utf8.h"
#include "decode/bytes/sample_json.h"
#include "decode/recipe.h"
#include "loader/dataset/catalogue/open_shards.h"
#include "loader/dataset/catalogue/remarks.h"
#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/catalogue/shard_findings.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/internal/listed_source.h"
#include "loader/dataset/internal/select_shards.h"
#include "loader/dataset/internal/selected_shards.h"
#include "loader/dataset/internal/shard_files.h"
#include "loader/dataset/sample_name.h"
#include "loader/dataset/shard_options.h"
#include "loader/dataset/tokens/token_file.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

// Returns the recipe of the directory if its text depends on how the recipe prepares media; nothing
// for a model that reads only text.
std::optional<Recipe> recipe_of_text(const fs::path& model) {
  auto recipe = Recipe::create(ModelRecipeOptions{.directory = model});
  if (!recipe || recipe->text_settings().empty()) return std::nullopt;
  return *std::move(recipe);
}

// Returns the directory of indexes that a shard's index is in, maybe in a folder of it.
const fs::path& index_directory_of(const KnownShard& shard) {
  return shard.place.root->index_directories[shard.row.directory];
}

class IndexedTokenPass final : public TokenPass {
 public:
  IndexedTokenPass(TokenizerIdentity identity, std::optional<Recipe> recipe,
                   std::vector<KnownShard> shards, std::string unread)
      : identity_(std::move(identity)),
        recipe_(std::move(recipe)),
        directory_(shards.empty() ? fs::path() : index_directory_of(shards.front())),
        shards_(std::move(shards)),
        unread_(std::move(unread)) {}

  std::size_t shards() const override { return shards_.size(); }
  const std::string& shard_name(std::size_t shard) const override { return shards_.name(shard); }
  std::uint64_t samples(std::size_t shard) const override {
    return shards_.known(shard).row.samples;
  }
  bool is_current(std::size_t shard) const override {
    const auto file = TokenFile::map(file_of(shard));
    const auto wanted = identity_of(shard);
    return file && wanted && (*file)->identity() == *wanted;
  }
  bool is_usable(std::size_t shard) const override {
    const auto file = TokenFile::map(file_of(shard));
    const auto wanted = identity_of(shard);
    return file && wanted && (*file)->identity().difference(*wanted).empty();
  }
  std::uint64_t tokenized(std::size_t shard) const override;
  std::string why_stale(std::size_t shard) const override;
  std::optional<std::string> recorded_options(std::size_t shard) const override {
    const auto file = TokenFile::map(file_of(shard));
    return file ? std::optional((*file)->identity().tokenizer.options) : std::nullopt;
  }
  const std::string& unread() const override { return unread_; }
  const fs::path& directory() const override { return directory_; }
  Result<std::vector<SampleText>> texts(std::size_t shard) const override;
  Status write(std::size_t shard, std::span<const TokenizedSample> samples) override;

 private:
  fs::path file_of(std::size_t shard) const {
    const KnownShard& known = shards_.known(shard);
    return token_file_name(index_path(index_directory_of(known), known.place.name));
  }
  Result<TokenFileIdentity> identity_of(std::size_t shard) const {
    ISOCOST_ASSIGN(const auto open, shards_.open(shard));
    return TokenFileIdentity::of(open->view(), identity_);
  }

  const TokenizerIdentity identity_;
  const std::optional<Recipe> recipe_;
  const fs::path directory_;
  const OpenShards shards_;
  const std::string unread_;
  mutable ShardFiles files_;
};

// A shard whose texts are read.
struct TextShard {
  const Shard& shard;
  ShardFiles& files;
  std::shared_ptr<const ByteSource> ahead;  // see ShardFiles::pass
};

Result<std::string> read_part(const TextShard& from, std::uint64_t sample, const PartPlace& place) {
  ISOCOST_ASSIGN(const auto part, from.files.open_part(from.shard, sample, place, from.ahead));
  std::string text(static_cast<std::size_t>(place.bytes), '\0');
  ISOCOST_ASSIGN(const std::size_t read, part->read_at(0, std::as_writable_bytes(std::span(text))));
  text.resize(read);
  return text;
}

// Returns the recipe's description of a medium, or only its modality.
SamplePart medium_of(const PartShape& shape, const std::optional<Recipe>& recipe,
                     std::string& reason) {
  SamplePart medium{.modality = shape.modality};
  if (!recipe) return medium;
  auto described = recipe->part(shape);
  if (described) return *std::move(described);
  if (reason.empty()) reason = described.error().message();
  return medium;
}

// Returns the number of tokens that represent a part; it does not matter for a part that the model
// cannot take.
std::uint32_t placeholders_of(const PartShape& shape, const std::optional<Recipe>& recipe) {
  if (shape.modality == Modality::kText) return 0;
  if (!recipe) return 1;
  return static_cast<std::uint32_t>(recipe->placeholders(shape).value_or(1));
}

Result<SampleText> text_of(const TextShard& from, std::uint64_t sample,
                           const std::optional<Recipe>& recipe) {
  const IndexView& view = from.shard.view();
  SampleText found;
  found.key = printable_utf8(view.key(sample));
  for (std::uint64_t i = view.first_part(sample); i < view.first_part(sample + 1); ++i) {
    const PartShape shape = view.part_shape(i);
    if (shape.modality != Modality::kText) {
      found.media.push_back(medium_of(shape, recipe, found.reason));
      continue;
    }
    ISOCOST_ASSIGN(std::string text, read_part(from, sample, view.part_place(i)));
    if (shape.format == MediaFormat::kJson) {
      ISOCOST_ASSIGN(SampleJson json, parse_sample_json(text));
      text = std::move(json.text);
      if (text.empty()) continue;  // its text is a conversation
    } else {
      text.erase(0, text.size() - without_byte_order_mark(text).size());
    }
    found.texts.push_back(std::move(text));
  }
  if (view.json_bytes(sample) > 0) {
    ISOCOST_ASSIGN(found.json, read_part(from, sample, view.json_place(sample)));
  }
  return found;
}

std::uint64_t IndexedTokenPass::tokenized(std::size_t shard) const {
  const auto file = TokenFile::map(file_of(shard));
  if (!file || !is_usable(shard)) return 0;
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < samples(shard); ++i) count += (*file)->reason(i).empty() ? 1U : 0U;
  return count;
}

std::string IndexedTokenPass::why_stale(std::size_t shard) const {
  const auto file = TokenFile::map(file_of(shard));
  if (!file) {
    const bool none = file.error().code() == ErrorCode::kNotFound;
    return none ? "" : "cannot be read: " + file.error().message();
  }
  const TokenFileIdentity& found = (*file)->identity();
  const auto wanted = identity_of(shard);
  if (!wanted) return "cannot be compared: " + wanted.error().message();
  const std::string difference = found.difference(*wanted);
  const std::string& options = found.tokenizer.options;
  return difference.empty() || options.empty() ? difference : difference + ", and with " + options;
}

Result<std::vector<SampleText>> IndexedTokenPass::texts(std::size_t shard) const {
  ISOCOST_ASSIGN(const auto open, shards_.open(shard));
  ISOCOST_ASSIGN(auto ahead, files_.pass(*open));
  const TextShard from{*open, files_, std::move(ahead)};
  std::vector<SampleText> texts;
  texts.reserve(open->samples());
  for (std::uint64_t i = 0; i < open->samples(); ++i) {
    auto text = text_of(from, i, recipe_);
    if (!text) {
      return std::move(text).error().with_context(
          sample_name(shard_name(shard), open->view().key(i)));
    }
    texts.push_back(*std::move(text));
  }
  return texts;
}

Status IndexedTokenPass::write(std::size_t shard, std::span<const TokenizedSample> samples) {
  ISOCOST_ASSIGN(const auto open, shards_.open(shard));
  const IndexView& index = open->view();
  if (samples.size() != index.samples()) {
    return Error(ErrorCode::kInvalidArgument,
                 shard_name(shard) + " has " + std::to_string(index.samples()) +
                     " samples, and not " + std::to_string(samples.size()));
  }
  std::vector<std::uint32_t> media(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::uint64_t k = index.first_part(i); k < index.first_part(i + 1); ++k) {
      media[i] += placeholders_of(index.part_shape(k), recipe_);
    }
    if (!samples[i].reason.empty() || samples[i].tokens.ids.size() >= media[i]) continue;
    return Error(ErrorCode::kInvalidArgument, sample_name(shard_name(shard), index.key(i)) +
                                                  " has fewer tokens than media, so there is not "
                                                  "a placeholder for each");
  }
  return replace_file(file_of(shard),
                      encode_token_file(TokenFileIdentity::of(index, identity_), samples, media));
}

// Adds the shards of a source. Their tokens will stand beside their indexes.
Status add_shards(ListedSource&& source, const SelectedShards& selected,
                  std::vector<KnownShard>& shards) {
  for (std::size_t i = 0; i < selected.size(); ++i) {
    ShardPlace& place = source.listing.shards[i];
    if (selected.held[i]) {
      return Error(ErrorCode::kIo, place.path().string() +
                                       ": its index could not be written, and its tokens would "
                                       "stand beside it; give a directory as index_dir");
    }
    shards.push_back(
        {.place = std::move(place), .source = source.reading, .row = selected.rows[i]});
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<TokenPass>> TokenPass::open(const std::string& data, const fs::path& model,
                                                   std::string options,
                                                   const DatasetOptions& dataset) {
  return open(DataSources::of_text(data, dataset.reading), model, std::move(options), dataset);
}

Result<std::unique_ptr<TokenPass>> TokenPass::open(const DataSources& data, const fs::path& model,
                                                   std::string options,
                                                   const DatasetOptions& dataset) {
  ISOCOST_ASSIGN(TokenizerIdentity identity, TokenizerIdentity::of_model(model));
  identity.options = std::move(options);
  // The tokens are what is to be made, and any sample may have some.
  DatasetOptions without_limits = dataset;
  without_limits.check_shape = {};
  std::vector<KnownShard> shards;
  std::vector<ShardFindings> findings;
  std::vector<ShardRow> rows;
  Stores stores(store_options(dataset));
  for (const DataSource& source : data.sources) {
    ISOCOST_ASSIGN(ListedSource listed, list_source(source, without_limits, stores));
    ISOCOST_ASSIGN(const SelectedShards selected,
                   select_shards(listed, without_limits, std::nullopt));
    findings.push_back(shard_findings(listed.listing, selected.rows, source.name));
    rows.insert(rows.end(), selected.rows.begin(), selected.rows.end());
    ISOCOST_TRY(add_shards(std::move(listed), selected, shards));
  }
  log_findings(joined_findings(findings), {}, dataset.log);
  const std::vector<Remark> remarks = remarks_of(rows);
  if (dataset.log_remarks) log_remarks(remarks, data.given, dataset.log);
  return std::make_unique<IndexedTokenPass>(std::move(identity), recipe_of_text(model),
                                            std::move(shards), describe_unread(remarks));
}

}  // namespace isocost
