#include "loader/config/internal/mixture_file.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <toml++/toml.h>

#include "base/counted.h"
#include "base/read_file.h"
#include "loader/config/internal/nearest_key.h"
#include "loader/config/internal/toml_line.h"
#include "loader/dataset/names/data_text.h"
#include "loader/plan/mixture/mixture.h"

namespace isocost {
namespace {

constexpr std::array<std::string_view, 3> kFileKeys = {"source", "steps", "skip_steps"};
constexpr std::array<std::string_view, 11> kSourceKeys = {
    "name", "path",         "media_root", "format",     "split", "text",
    "ramp", "ignore_parts", "weight_key", "proportion", "epochs"};
constexpr std::int64_t kMostEpochs = 1'000'000'000;

// A value and its place, which begins its errors.
struct Value {
  const toml::node* node;
  std::string place;

  Error wrong(const std::string& what) const {
    return {ErrorCode::kInvalidArgument, place + ": " + what};
  }
};

Status check_keys(const toml::table& table, std::span<const std::string_view> known,
                  std::string_view file) {
  for (const auto& [key, node] : table) {
    if (std::ranges::find(known, key.str()) != known.end()) continue;
    std::string keys;
    for (const std::string_view name : known)
      keys += (keys.empty() ? "" : ", ") + std::string(name);
    const std::string near = nearest_key(key.str(), known);
    return Error(ErrorCode::kInvalidArgument,
                 toml_line(node, file) + ": " + std::string(key.str()) + ": no such key: " +
                     (near.empty() ? "known here are " + keys : "write " + near));
  }
  return {};
}

Result<std::string> text_of(const Value& value, bool may_be_empty = false) {
  const auto* text = value.node->as_string();
  if (text == nullptr) return value.wrong("must be text in quotes");
  if (text->get().empty() && !may_be_empty) {
    return value.wrong("is empty: give a text, or leave the key out");
  }
  if (text->get().find('\0') != std::string::npos) {
    return value.wrong("holds a byte of value 0: leave it out");
  }
  return text->get();
}

Result<std::uint64_t> count_of(const Value& value, std::int64_t most) {
  const auto* number = value.node->as_integer();
  if (number != nullptr && number->get() >= 1 && number->get() <= most) {
    return static_cast<std::uint64_t>(number->get());
  }
  return value.wrong("must be a whole number from 1 to " + std::to_string(most) +
                     ": leave the key out for no limit");
}

// Returns an array of texts; one text counts as an array of it.
Result<std::vector<std::string>> texts_of(const Value& value) {
  std::vector<std::string> texts;
  const toml::array* array = value.node->as_array();
  if (array == nullptr) {
    ISOCOST_ASSIGN(std::string text, text_of(value));
    texts.push_back(std::move(text));
    return texts;
  }
  for (const toml::node& node : *array) {
    ISOCOST_ASSIGN(std::string text, text_of({&node, value.place}));
    texts.push_back(std::move(text));
  }
  if (texts.empty()) return value.wrong("is empty: give at least one text");
  return texts;
}

std::optional<double> number_of(const toml::node& node) {
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* whole = node.as_integer()) return static_cast<double>(whole->get());
  return std::nullopt;
}

Result<Breakpoint> breakpoint_of(const toml::node& node, const Value& value) {
  const toml::array* pair = node.as_array();
  const auto wrong = [&] {
    return value.wrong(
        "must be a number, or pairs of step and number as in [[0, 1.0], [20000, 4.0]]");
  };
  if (pair == nullptr || pair->size() != 2) return wrong();
  const auto* step = pair->get(0)->as_integer();
  const std::optional<double> proportion = number_of(*pair->get(1));
  if (step == nullptr || !proportion) return wrong();
  if (step->get() < 0 || step->get() > kLastStep) {
    return value.wrong("step " + std::to_string(step->get()) + " must be 0 to " +
                       std::to_string(kLastStep));
  }
  return Breakpoint{static_cast<std::uint64_t>(step->get()), *proportion};
}

Result<std::vector<Breakpoint>> breakpoints_of(const Value& value) {
  if (const std::optional<double> constant = number_of(*value.node)) {
    return std::vector<Breakpoint>{{0, *constant}};
  }
  const toml::array* array = value.node->as_array();
  if (array == nullptr || array->empty()) {
    return value.wrong(
        "must be a number, or pairs of step and number as in [[0, 1.0], [20000, 4.0]]");
  }
  std::vector<Breakpoint> points;
  for (const toml::node& node : *array) {
    ISOCOST_ASSIGN(const Breakpoint point, breakpoint_of(node, value));
    points.push_back(point);
  }
  return points;
}

// Reads one [[source]].
class SourceReader {
 public:
  SourceReader(const toml::table& table, std::string_view file) : table_(table), file_(file) {}

  Result<SourceDescription> read() {
    ISOCOST_TRY(check_keys(table_, kSourceKeys, file_));
    SourceDescription source;
    ISOCOST_ASSIGN(const Value name, required_value("name"));
    ISOCOST_ASSIGN(source.name, text_of(name));
    source.place = toml_line(table_, file_) + ": source '" + source.name + "'";
    if (source.name.find('/') != std::string::npos) {
      return name.wrong("'" + source.name +
                        "' contains '/', which ends the name in a sample's key: write another "
                        "character");
    }
    ISOCOST_ASSIGN(const Value path, required_value("path"));
    ISOCOST_ASSIGN(source.paths, texts_of(path));
    ISOCOST_TRY(read_texts(source));
    ISOCOST_TRY(read_schedule(source.schedule));
    if (const auto epochs = value("epochs")) {
      ISOCOST_ASSIGN(source.epochs, count_of(*epochs, kMostEpochs));
    }
    return source;
  }

 private:
  std::optional<Value> value(std::string_view key) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    return Value{node, toml_line(*node, file_) + ": " + std::string(key)};
  }

  Result<Value> required_value(std::string_view key) const {
    auto given = value(key);
    if (given) return *std::move(given);
    return Error(ErrorCode::kInvalidArgument, toml_line(table_, file_) + ": a [[source]] needs " +
                                                  std::string(key) + " = \"...\"");
  }

  Status read_text(std::string_view key, const auto& keep, bool may_be_empty = false) const {
    const auto given = value(key);
    if (!given) return {};
    ISOCOST_ASSIGN(std::string text, text_of(*given, may_be_empty));
    keep(std::move(text));
    return {};
  }

  Status read_texts(SourceDescription& source) const {
    ISOCOST_TRY(
        read_text("media_root", [&](std::string text) { source.media_root = std::move(text); }));
    ISOCOST_TRY(read_text("format", [&](std::string text) { source.format = std::move(text); }));
    ISOCOST_TRY(read_text("split", [&](std::string text) { source.split = std::move(text); }));
    ISOCOST_TRY(read_text("text", [&](std::string text) { source.text = std::move(text); }));
    ISOCOST_TRY(read_text(
        "ignore_parts", [&](std::string text) { source.ignore_parts = std::move(text); }, true));
    return read_text(
        "weight_key", [&](std::string text) { source.weight_key = std::move(text); }, true);
  }

  Status read_schedule(ProportionSchedule& schedule) const {
    const auto proportion = value("proportion");
    if (const auto ramp = value("ramp")) {
      const auto* flag = ramp->node->as_boolean();
      if (flag == nullptr) return ramp->wrong("must be true or false");
      if (!proportion || !proportion->node->is_array()) {
        return ramp->wrong(
            "runs between the breakpoints of proportion, which has none: leave it "
            "out, or write proportion = [[0, 1.0], [20000, 4.0]]");
      }
      schedule.ramp = flag->get();
    }
    if (!proportion) return {};
    ISOCOST_ASSIGN(schedule.points, breakpoints_of(*proportion));
    return schedule.validate(toml_line(*proportion->node, file_));
  }

  const toml::table& table_;
  std::string_view file_;
};

// Checks the sources together, as if each had enough samples.
Status check_sources(const MixtureDescription& mixture) {
  std::set<std::string> names;
  MixtureOptions options;
  for (const SourceDescription& source : mixture.sources) {
    if (!names.insert(source.name).second) {
      return Error(ErrorCode::kInvalidArgument,
                   source.place + ": another source has this name, too: rename one");
    }
    options.sources.push_back({source.name, 1, 0, source.schedule, 0});
  }
  options.steps = 1;
  const auto made = Mixture::create(std::move(options));
  if (made) return {};
  Error error = made.error();
  return std::move(error).with_context(mixture.sources.front().place + ": proportion");
}

Result<MixtureDescription> mixture_of(const toml::table& table, const std::filesystem::path& file) {
  const std::string name = file.string();
  ISOCOST_TRY(check_keys(table, kFileKeys, name));
  MixtureDescription mixture;
  mixture.directory = file.parent_path();
  const toml::node* sources = table.get("source");
  const toml::array* array = sources == nullptr ? nullptr : sources->as_array();
  if (array == nullptr || array->empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 (sources == nullptr ? name + ":1" : toml_line(*sources, name)) +
                     ": source: a mixture has a table [[source]], with name and path, for each "
                     "data set");
  }
  if (array->size() > kMostSources) {
    return Error(ErrorCode::kInvalidArgument,
                 toml_line(*array, name) + ": source: " + counted(array->size(), "source") +
                     ", and at most " + std::to_string(kMostSources) +
                     " are allowed: name several directories in the path of one");
  }
  for (const toml::node& node : *array) {
    const toml::table* source = node.as_table();
    if (source == nullptr) {
      return Error(ErrorCode::kInvalidArgument,
                   toml_line(node, name) + ": source: must be a table [[source]]");
    }
    ISOCOST_ASSIGN(SourceDescription read, SourceReader(*source, name).read());
    mixture.sources.push_back(std::move(read));
  }
  if (const toml::node* steps = table.get("steps")) {
    ISOCOST_ASSIGN(mixture.steps,
                   count_of({steps, toml_line(*steps, name) + ": steps"}, kLastStep));
  }
  if (const toml::node* skipped = table.get("skip_steps")) {
    ISOCOST_ASSIGN(const auto texts,
                   texts_of({skipped, toml_line(*skipped, name) + ": skip_steps"}));
    auto parsed = SkippedSteps::parse(texts);
    if (!parsed)
      return std::move(parsed).error().with_context(toml_line(*skipped, name) + ": skip_steps");
    mixture.skipped = *std::move(parsed);
  }
  ISOCOST_TRY(check_sources(mixture));
  return mixture;
}

}  // namespace

Result<DataSources> data_sources(const MixtureDescription& mixture, std::string given,
                                 const ReadingOptions& reading) {
  DataSources data{std::move(given), {}};
  data.sources.reserve(mixture.sources.size());
  for (const SourceDescription& described : mixture.sources) {
    auto text = join_data(described.paths);
    if (!text) return std::move(text).error().with_context(described.place + ": path");
    DataSource source{described.name, *std::move(text), mixture.directory, reading};
    if (described.ignore_parts) source.reading.ignore_parts = *described.ignore_parts;
    if (described.text) source.reading.text = *described.text;
    if (!described.format.empty()) source.reading.format = described.format;
    if (!described.split.empty()) source.reading.split = described.split;
    if (described.weight_key) source.reading.weight_key = *described.weight_key;
    if (!described.media_root.empty()) source.reading.media_root = described.media_root.string();
    data.sources.push_back(std::move(source));
  }
  // The ids of samples do not depend on the order of the file either.
  std::ranges::sort(data.sources, {}, &DataSource::name);
  return data;
}

bool names_mixture(std::string_view data) {
  std::error_code ignored;
  const std::filesystem::path file(data);
  return file.extension() == ".toml" && std::filesystem::is_regular_file(file, ignored);
}

Result<MixtureDescription> parse_mixture(std::string_view toml, const std::filesystem::path& file) {
  try {
    return mixture_of(toml::parse(toml, file.string()), file);
  } catch (const toml::parse_error& error) {
    return Error(ErrorCode::kInvalidArgument, file.string() + ":" +
                                                  std::to_string(error.source().begin.line) + ": " +
                                                  std::string(error.description()));
  }
}

Result<MixtureDescription> read_mixture_file(const std::filesystem::path& file) {
  ISOCOST_ASSIGN(const std::string text,
                 read_file("mixture " + file.string(), file, kMostMixtureFileBytes));
  return parse_mixture(text, file);
}

}  // namespace isocost
