#include "loader/config/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>

#include <toml++/toml.h>

#include "loader/plan/served_layout.h"

namespace isocost {
namespace {

using Path = std::filesystem::path;

Error bad_value(std::string_view text, std::string_view expected) {
  return {ErrorCode::kInvalidArgument,
          "'" + std::string(text) + "' is not " + std::string(expected)};
}

template <typename T>
Result<T> parse_number(std::string_view text) {
  T number{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) {
    return bad_value(text, std::is_floating_point_v<T> ? "a number" : "a whole number in range");
  }
  return number;
}

template <typename T>
std::string format_number(T number) {
  std::ostringstream out;
  out << number;
  return out.str();
}

// A field of NodeOptions, or of the recipe in it, reached by a pointer to member.
template <typename T>
T& field(NodeOptions& options, T NodeOptions::* member) {
  return options.*member;
}
template <typename T>
T& field(NodeOptions& options, T RecipeOptions::* member) {
  return options.recipe.*member;
}
template <typename Owner, typename T>
const T& field(const NodeOptions& options, T Owner::* member) {
  return field(const_cast<NodeOptions&>(options), member);  // NOLINT: read only, one definition
}

template <typename Owner, typename T>
OptionSpec number(std::string name, T Owner::* member, std::string text) {
  return {std::move(name), std::is_floating_point_v<T> ? "X" : "N", std::move(text),
          [member](NodeOptions& options, std::string_view value) -> Status {
            ISOCOST_ASSIGN(field(options, member), parse_number<T>(value));
            return {};
          },
          [member](const NodeOptions& options) { return format_number(field(options, member)); }};
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array<std::pair<std::int64_t, std::string_view>, 3> kUnits = {
      {{kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}}};
  for (const auto& [unit, name] : kUnits) {
    if (bytes > 0 && bytes % unit == 0) return std::to_string(bytes / unit) + std::string(name);
  }
  return std::to_string(bytes);
}

OptionSpec size(std::string name, std::int64_t NodeOptions::* member, std::string text) {
  return {std::move(name), "SIZE", std::move(text),
          [member](NodeOptions& options, std::string_view value) -> Status {
            ISOCOST_ASSIGN(options.*member, parse_bytes(value));
            return {};
          },
          [member](const NodeOptions& options) { return format_bytes(options.*member); }};
}

template <typename Owner, typename T>  // std::string or a path
OptionSpec text_option(std::string name, T Owner::* member, std::string value, std::string text) {
  return {std::move(name), std::move(value), std::move(text),
          [member](NodeOptions& options, std::string_view given) -> Status {
            field(options, member) = T(given);
            return {};
          },
          [member](const NodeOptions& options) {
            if constexpr (std::is_same_v<T, Path>)
              return field(options, member).string();
            else
              return field(options, member);
          }};
}

// One of a few words, in the order of the enumerators.
template <typename T>
OptionSpec choice(std::string name, T NodeOptions::* member, std::vector<std::string> words,
                  std::string text) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : "|") + word;
  return {std::move(name), joined, std::move(text),
          [member, words, joined](NodeOptions& options, std::string_view value) -> Status {
            const auto found = std::find(words.begin(), words.end(), value);
            if (found == words.end()) return bad_value(value, "one of " + joined);
            options.*member = static_cast<T>(found - words.begin());
            return {};
          },
          [member, words](const NodeOptions& options) {
            return words.at(static_cast<std::size_t>(options.*member));
          }};
}

OptionSpec flag_option(std::string name, bool NodeOptions::* member, std::string text) {
  return choice(std::move(name), member, {"off", "on"}, std::move(text));
}

// Names of modules between commas.
OptionSpec modules(std::string name, std::array<bool, kModules> NodeOptions::* member,
                   std::string text) {
  return {std::move(name), "MODULES", std::move(text),
          [member](NodeOptions& options, std::string_view value) -> Status {
            std::array<bool, kModules> named{};
            while (!value.empty()) {
              const std::size_t comma = std::min(value.find(','), value.size());
              const auto module = module_from_name(value.substr(0, comma));
              if (!module) return bad_value(value.substr(0, comma), "one of vision, audio, llm");
              named.at(static_cast<std::size_t>(*module)) = true;
              value.remove_prefix(std::min(comma + 1, value.size()));
            }
            options.*member = named;
            return {};
          },
          [member](const NodeOptions& options) {
            std::string names;
            for (std::size_t i = 0; i < kModules; ++i) {
              if (!(options.*member).at(i)) continue;
              names +=
                  (names.empty() ? "" : ",") + std::string(module_name(static_cast<Module>(i)));
            }
            return names;
          }};
}

OptionSpec milliseconds(std::string name, std::chrono::milliseconds NodeOptions::* member,
                        std::string text) {
  return {std::move(name), "SECONDS", std::move(text),
          [member](NodeOptions& options, std::string_view value) -> Status {
            ISOCOST_ASSIGN(const double seconds, parse_number<double>(value));
            if (!(seconds >= 0 && seconds < 1e9)) return bad_value(value, "a number of seconds");
            options.*member = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
            return {};
          },
          [member](const NodeOptions& options) {
            return format_number(static_cast<double>((options.*member).count()) / 1e3);
          }};
}

std::vector<OptionSpec> data_options() {
  using O = NodeOptions;
  return {
      text_option("shards", &O::shards, "DIR", "Directory of WebDataset shards (*.tar, *.tar.gz)."),
      number("ranks", &O::ranks,
             "Data-parallel ranks of the training job; 0: as many as the first trainer says."),
      number("global_batch", &O::global_batch, "Samples of one optimizer step, over all ranks."),
      number("microbatches", &O::microbatches, "Microbatches per rank and step."),
      text_option("layout", &O::layout, "FILE",
                  "Layout of isocost plan: gives ranks (the LLM's replicas) and microbatches, "
                  "delivers to each stage what it consumes, and plans for its pipeline."),
      choice("balance", &O::balance, {"none", "isocost"},
             "none deals samples in order, as loaders do; isocost equalises predicted cost."),
      number("lookahead", &O::lookahead,
             "So many global batches are composed together; 1 keeps each as it was drawn."),
      number("epochs", &O::epochs, "Passes over the data; 0: without end."),
      number("steps", &O::steps, "An epoch ends after this many steps; 0 takes all samples."),
      number("seed", &O::seed,
             "Order of the samples; with the epoch it decides every global batch."),
      flag_option("shuffle", &O::shuffle, "off takes samples in the order of the shards."),
      choice("tail", &O::tail, {"deliver", "drop", "carry"},
             "Samples left at the end of an epoch: a smaller step, dropped, or moved to the next "
             "epoch."),
      text_option("profile", &O::profile, "FILE",
                  "Cost profile to start from; empty: a stated default."),
      modules("padded", &O::padded,
              "Modules that the trainer pads to the longest sequence of a microbatch, like llm or "
              "vision,llm: so they are priced; data comes packed all the same."),
      flag_option("correct", &O::correct, "Correct the cost model from measured seconds."),
      flag_option("reprofile", &O::reprofile,
                  "Where the model is found changed, ask the first trainer to measure its profile "
                  "again, and go on from that."),
      text_option("correction_file", &O::correction_file, "FILE",
                  "Keeps what correction learnt for the node's next run; empty: nowhere."),
  };
}

std::vector<OptionSpec> recipe_options() {
  using R = RecipeOptions;
  return {
      text_option("recipe.name", &R::name, "NAME", "How media are prepared; there is native28."),
      number("recipe.max_image_patches", &R::max_image_patches,
             "Images of more 14-pixel patches are scaled down."),
      number("recipe.max_frame_patches", &R::max_frame_patches, "The same for a video frame."),
      number("recipe.video_fps", &R::video_fps, "Frames sampled a second of video."),
      number("recipe.max_video_frames", &R::max_video_frames, "At most so many frames a video."),
      number("recipe.max_audio_seconds", &R::max_audio_seconds, "Audio beyond is cut off."),
      number("recipe.max_text_tokens", &R::max_text_tokens, "Text beyond is cut off, a part each."),
  };
}

std::vector<OptionSpec> service_options() {
  using O = NodeOptions;
  return {
      choice("on_bad_sample", &O::on_bad_sample, {"skip", "replace", "fail"},
             "A bad sample is left out, replaced by another one, or ends training."),
      text_option("max_bad_samples", &O::max_bad_samples, "N|P%",
                  "More bad samples than this, a count or a share of the data set, end training."),
      text_option("bad_samples_file", &O::bad_samples_file, "FILE",
                  "JSON lines: shard, key, part and reason of each bad sample."),
      number("max_pixels", &O::max_pixels, "Larger images and frames are refused as bad samples."),
      size("memory", &O::memory, "Budget for decoding and decoded samples."),
      size("microbatch_memory", &O::microbatch_memory,
           "No microbatch holds more tensor bytes; 0: no cap."),
      number("workers", &O::workers, "Decoding threads; 0: one per core."),
      number("plan_ahead", &O::plan_ahead, "Steps decoded and planned ahead of training."),
      text_option("index_dir", &O::index_dir, "DIR",
                  "Where shard indexes are kept; empty: .isocost beside the shards."),
      text_option("bind", &O::bind, "ENDPOINT", "ZeroMQ endpoint; port * picks a free one."),
      flag_option("insecure", &O::insecure, "Allow an address beyond loopback without keys."),
      text_option("curve_key", &O::curve_key, "FILE",
                  "Secret key from isocost keygen: clients need its public half."),
      text_option("curve_clients", &O::curve_clients, "FILE",
                  "Public keys of the clients let in, one a line; empty: any that knows ours."),
      milliseconds("timeout", &O::timeout,
                   "A silent trainer is given up after this long; the others learn after as long "
                   "again that they "
                   "wait for it in vain."),
      text_option("metrics", &O::metrics, "ADDRESS",
                  "Serve Prometheus metrics over HTTP there: PORT (of 127.0.0.1), ADDRESS:PORT or "
                  "[IPV6]:PORT; empty: nowhere."),
      text_option("summary", &O::summary, "FILE",
                  "JSON report written at the end, whatever ends it; empty: none."),
  };
}

const OptionSpec* find_option(std::string_view name) {
  const auto& table = node_option_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const OptionSpec& spec) { return spec.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::string place(const toml::node& node, std::string_view file_name) {
  return std::string(file_name) + ":" + std::to_string(node.source().begin.line);
}

// A TOML value as the text that a flag would carry.
Result<std::string> value_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* real = node.as_floating_point()) return format_number(real->get());
  if (const auto* boolean = node.as_boolean()) return std::string(boolean->get() ? "on" : "off");
  return Error(ErrorCode::kInvalidArgument, "expected text, a number or true/false");
}

Status apply_table(NodeOptions& options, const toml::table& table, const std::string& prefix,
                   std::string_view file_name) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const auto* inner = node.as_table(); inner != nullptr && prefix.empty()) {
      ISOCOST_TRY(apply_table(options, *inner, name + ".", file_name));
      continue;
    }
    const std::string where = place(node, file_name) + ": " + name;
    const OptionSpec* spec = find_option(name);
    if (spec == nullptr) {
      return Error(ErrorCode::kInvalidArgument,
                   where + ": no such setting; isocost serve --help lists them");
    }
    auto text = value_text(node);
    if (!text) return std::move(text).error().with_context(where);
    ISOCOST_TRY_CONTEXT(spec->set(options, *text), where);
  }
  return {};
}

}  // namespace

std::string OptionSpec::flag() const {
  const std::size_t dot = name.find('.');
  std::string flag = "--" + (dot == std::string::npos ? name : name.substr(dot + 1));
  if (name == "recipe.name") flag = "--recipe";
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

const std::vector<OptionSpec>& node_option_table() {
  static const std::vector<OptionSpec> the_table = [] {
    std::vector<OptionSpec> table = data_options();
    for (auto* part : {&recipe_options, &service_options}) {
      for (OptionSpec& spec : part()) table.push_back(std::move(spec));
    }
    return table;
  }();
  return the_table;
}

Status apply_toml(NodeOptions& options, std::string_view toml, std::string_view file_name) {
  try {
    return apply_table(options, toml::parse(toml, std::string(file_name)), "", file_name);
  } catch (const toml::parse_error& error) {
    return Error(ErrorCode::kInvalidArgument, std::string(file_name) + ":" +
                                                  std::to_string(error.source().begin.line) + ": " +
                                                  std::string(error.description()));
  }
}

Result<NodeOptions> make_options(const std::function<Status(NodeOptions&)>& set) {
  NodeOptions options;
  ISOCOST_TRY(set(options));
  if (options.layout.empty()) return options;
  // Once more on top of the layout: what was not set is the layout's then, and what was set
  // otherwise is found to be so when the node is made.
  NodeOptions on_layout;
  on_layout.layout = options.layout;
  ISOCOST_TRY(adopt_layout(on_layout));
  ISOCOST_TRY(set(on_layout));
  return on_layout;
}

std::string option_table_markdown() {
  const NodeOptions defaults;
  std::string out = "| key | flag | value | default | meaning |\n|---|---|---|---|---|\n";
  for (const OptionSpec& spec : node_option_table()) {
    std::string value = spec.value;
    for (std::size_t at = 0; (at = value.find('|', at)) != std::string::npos; at += 2) {
      value.insert(at, "\\");
    }
    const std::string standard = spec.get(defaults);
    out += "| `" + spec.name + "` | `" + spec.flag() + "` | " + value + " | " +
           (standard.empty() ? "" : "`" + standard + "`") + " | " + spec.text + " |\n";
  }
  return out;
}

Result<std::int64_t> parse_bytes(std::string_view text) {
  // The first letter is the prefix; an i after it makes it binary; a B at the end is decoration.
  static constexpr std::string_view kPrefixes = "kMGT";
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  if (unit.ends_with('B')) unit.pop_back();
  const bool binary = unit.ends_with('i');
  if (binary) unit.pop_back();
  if (unit == "K") unit = "k";
  const std::size_t power = unit.size() == 1 ? kPrefixes.find(unit) + 1 : 0;
  const bool known = unit.empty() ? !binary : power > 0;
  const double bytes = number * std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(power));
  if (code != std::errc() || !known || !(bytes >= 0 && bytes < 0x1p62)) {
    return bad_value(text, "a size such as 512MiB or 2GB");
  }
  return static_cast<std::int64_t>(bytes);
}

}  // namespace isocost
