#include "loader/config/option_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <sstream>
#include <type_traits>
#include <utility>
#include <variant>

#include "balancer/layout/layout.h"
#include "loader/config/data_sources.h"
#include "loader/config/internal/mixture_file.h"
#include "loader/dataset/names/data_text.h"

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

// Returns the part of NodeOptions that a pointer to member belongs to.
template <typename T>
T& field(NodeOptions& options, T NodeOptions::* member) {
  return options.*member;
}
template <typename T>
T& field(NodeOptions& options, T PlanOptions::* member) {
  return options.plan.*member;
}
template <typename T>
T& field(NodeOptions& options, T CostModelOptions::* member) {
  return options.cost_model.*member;
}
template <typename T>
T& field(NodeOptions& options, T DecodeOptions::* member) {
  return options.decode.*member;
}
template <typename T>
T& field(NodeOptions& options, T ReadingOptions::* member) {
  return options.decode.reading.*member;
}
template <typename T>
T& field(NodeOptions& options, T ModelRecipeOptions::* member) {
  return std::get<ModelRecipeOptions>(options.decode.recipe).*member;
}
template <typename T>
T& field(NodeOptions& options, T Native28Options::* member) {
  return std::get<Native28Options>(options.decode.recipe).*member;
}
template <typename T>
T& field(NodeOptions& options, T BadSampleOptions::* member) {
  return options.bad_samples.*member;
}
template <typename T>
T& field(NodeOptions& options, T ShardOptions::* member) {
  return options.shards.*member;
}
template <typename T>
T& field(NodeOptions& options, T ServiceOptions::* member) {
  return options.service.*member;
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

template <typename Owner>
OptionSpec size(std::string name, std::int64_t Owner::* member, std::string text) {
  return {std::move(name), "SIZE", std::move(text),
          [member](NodeOptions& options, std::string_view value) -> Status {
            ISOCOST_ASSIGN(field(options, member), parse_bytes(value));
            return {};
          },
          [member](const NodeOptions& options) { return format_bytes(field(options, member)); }};
}

template <typename Owner, typename T>  // std::string or std::filesystem::path
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

// Makes a setting that is one of several words, in the order of the enumerators.
template <typename Owner, typename T>
OptionSpec choice(std::string name, T Owner::* member, const std::vector<std::string>& words,
                  std::string text) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : "|") + word;
  return {std::move(name), joined, std::move(text),
          [member, words, joined](NodeOptions& options, std::string_view value) -> Status {
            const auto found = std::find(words.begin(), words.end(), value);
            if (found == words.end()) return bad_value(value, "one of " + joined);
            field(options, member) = static_cast<T>(found - words.begin());
            return {};
          },
          [member, words](const NodeOptions& options) {
            return words.at(static_cast<std::size_t>(field(options, member)));
          }};
}

template <typename Owner>
OptionSpec flag_option(std::string name, bool Owner::* member, std::string text) {
  return choice(std::move(name), member, {"off", "on"}, std::move(text));
}

// Makes a setting of comma-separated names of modules.
template <typename Owner>
OptionSpec modules(std::string name, std::array<bool, kModules> Owner::* member, std::string text) {
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
            field(options, member) = named;
            return {};
          },
          [member](const NodeOptions& options) {
            std::string names;
            for (std::size_t i = 0; i < kModules; ++i) {
              if (!field(options, member).at(i)) continue;
              names +=
                  (names.empty() ? "" : ",") + std::string(module_name(static_cast<CostModule>(i)));
            }
            return names;
          }};
}

template <typename Owner>
OptionSpec milliseconds(std::string name, std::chrono::milliseconds Owner::* member,
                        std::string text) {
  return {std::move(name), "SECONDS", std::move(text),
          [member](NodeOptions& options, std::string_view value) -> Status {
            ISOCOST_ASSIGN(const double seconds, parse_number<double>(value));
            if (!(seconds >= 0 && seconds < 1e9)) return bad_value(value, "a number of seconds");
            field(options, member) =
                std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
            return {};
          },
          [member](const NodeOptions& options) {
            return format_number(static_cast<double>(field(options, member).count()) / 1e3);
          }};
}

std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

// Makes a setting of comma-separated steps and ranges of steps.
template <typename Owner>
OptionSpec step_ranges(std::string name, SkippedSteps Owner::* member, std::string text) {
  return {std::move(name), "STEPS", std::move(text),
          [member](NodeOptions& options, std::string_view value) -> Status {
            ISOCOST_ASSIGN(field(options, member), SkippedSteps::parse(split_at_commas(value)));
            return {};
          },
          [member](const NodeOptions& options) {
            std::string joined;
            for (const std::string& range : field(options, member).texts()) {
              joined.append(joined.empty() ? "" : ",").append(range);
            }
            return joined;
          }};
}

// NOLINTNEXTLINE(readability-function-size): a table with one row an option is clearer whole.
std::vector<OptionSpec> plan_options() {
  using P = PlanOptions;
  using C = CostModelOptions;
  return {
      text_option("data", &NodeOptions::data, "DATA",
                  "What to train on: " + std::string(kDataHelp) + "."),
      number("ranks", &P::ranks,
             "Data-parallel ranks of the training job; 0: taken from the first trainer."),
      number("global_batch_size", &P::global_batch_size,
             "Samples per optimizer step, over all ranks."),
      number("microbatches", &P::microbatches,
             "Microbatches per rank and step; 0: as few as the limits of a microbatch (max_tokens, "
             "max_vision_tokens, max_memory, microbatch_memory) allow, chosen for each step and "
             "equal on all ranks, or 4 without a limit."),
      number(
          "max_tokens", &P::max_tokens,
          "Limit of LLM tokens per microbatch, with balance = cost; 0: no limit. A longer sample "
          "is bad."),
      number("max_vision_tokens", &P::max_vision_tokens,
             "Limit of patches per microbatch, which are the tokens of the vision encoder, with "
             "balance = cost; 0: no limit. A sample with more is bad."),
      size("max_memory", &P::max_memory,
           "Limit of predicted memory per microbatch, activations by the model profile and "
           "tensors, with balance = cost; 0: no limit. A sample that needs more is bad."),
      choice("on_long", &P::on_long, {"bad", "truncate"},
             "A single sample that exceeds a limit of a microbatch is a bad sample, or loses whole "
             "turns from its end, with their media, until it fits; truncate needs model and "
             "max_tokens."),
      choice(
          "dummy_media", &P::dummy_media, {"off", "needed", "always"},
          "With model: a microbatch without pictures, videos or sounds, which the same microbatch "
          "of another rank has, gets one small dummy without labels (needed), or each microbatch "
          "does (always), so that every rank runs the encoder: sharded parameters and summed "
          "gradients wait for it. Without effect on a layout with stages."),
      text_option("layout", &P::layout_file, "FILE",
                  "Layout file of isocost plan. It sets ranks (the LLM's replicas) and "
                  "microbatches, and each stage receives only the tensors that it needs."),
      choice("balance", &P::balance,
             std::vector<std::string>(kBalancePolicyNames.begin(), kBalancePolicyNames.end()),
             "in-order deals samples as they are drawn; tokens equalises LLM tokens (LPT); cost "
             "equalises predicted cost."),
      number(
          "lookahead", &P::lookahead,
          "Global batches composed together, with balance = cost and given ranks; 1 keeps each as "
          "it was drawn."),
      number("epochs", &P::epochs, "Passes over the data; 0: without end."),
      number("steps", &P::steps, "An epoch ends after this many steps; 0 takes all samples."),
      step_ranges("skip_steps", &P::skip_steps,
                  "Steps to leave out of each epoch, as in 1200-1210,1300; the others keep their "
                  "samples."),
      number("seed", &P::seed,
             "Seed of the sample order; with the epoch it decides every global batch."),
      choice("shuffle", &P::shuffle,
             std::vector<std::string>(kShufflePolicyNames.begin(), kShufflePolicyNames.end()),
             "off takes samples in the order of the shards; global permutes the data set; blocks "
             "permutes the shards, and then the samples of each window of shuffle_shards shards."),
      number("shuffle_shards", &P::shuffle_shards,
             "With shuffle = blocks: shards whose samples are permuted together; all of them if "
             "there are fewer."),
      choice("tail", &P::tail, {"deliver", "drop", "carry"},
             "Samples left at the end of an epoch: delivered as a smaller step, dropped, or moved "
             "to the next epoch."),
      text_option(
          "profile", &C::profile_file, "FILE",
          "Model profile to start from; empty: the built-in one, estimated from the FLOP of "
          "SigLIP-so400m, Whisper large-v3 and Qwen2.5-7B."),
      modules("padded", &C::padded,
              "Modules that the trainer pads to the longest sequence of a microbatch (for example "
              "llm or vision,llm). Plans count padding, and with llm group samples of like length; "
              "data is delivered packed."),
      number("padded_multiple", &P::padded_multiple,
             "With padded = llm: the trainer pads sequences of the LLM to a multiple of this "
             "length. Plans and limits count that, too."),
      flag_option("correct", &C::correct, "Correct the cost model from measured seconds."),
      flag_option("reprofile", &P::reprofile,
                  "When model drift is detected, ask the trainers to measure the model again, and "
                  "plan by the new profile."),
      number("reprofile_budget", &P::reprofile_budget,
             "Part of the training so far that measuring again may take, above 0 and at most 1."),
      text_option("correction_file", &C::correction_file, "FILE",
                  "Keeps the state of the cost model for the node's next run; empty: not kept."),
  };
}

// Makes a setting of one kind of recipe of a setting that needs options with this kind. Options
// with the other kind have its default, and giving it has the result `with_other`.
template <typename Kind>
OptionSpec of_kind(OptionSpec option, Status (*with_other)(const NodeOptions& options)) {
  const auto other_options = [] {
    NodeOptions options;
    options.decode.recipe = Kind{};
    return options;
  };
  option.set = [=, set = std::move(option.set)](NodeOptions& options,
                                                std::string_view value) -> Status {
    if (std::holds_alternative<Kind>(options.decode.recipe)) return set(options, value);
    NodeOptions other = other_options();
    ISOCOST_TRY(set(other, value));
    return with_other(options);
  };
  option.get = [=, get = std::move(option.get)](const NodeOptions& options) {
    const bool is_kind = std::holds_alternative<Kind>(options.decode.recipe);
    return get(is_kind ? options : other_options());
  };
  return option;
}

// Makes a setting of pictures that a model's own directory prepares. It has no effect with
// native28.
OptionSpec of_model(OptionSpec option) {
  return of_kind<ModelRecipeOptions>(std::move(option),
                                     [](const NodeOptions&) { return Status(); });
}

// Makes a setting of native28, which is refused together with a model.
OptionSpec of_native28(OptionSpec option) {
  return of_kind<Native28Options>(std::move(option), [](const NodeOptions& options) -> Status {
    return Error(ErrorCode::kInvalidArgument,
                 "model and recipe are both given: the model's directory " +
                     model_directory(options.decode.recipe).string() +
                     " says how media are prepared, so leave recipe out");
  });
}

// The one setting of pictures that both kinds of recipe have.
Truncated truncated_of(const RecipeOptions& recipe) {
  return std::visit([](const auto& either) { return either.truncated; }, recipe);
}

Status set_model(NodeOptions& options, std::string_view directory) {
  RecipeOptions& recipe = options.decode.recipe;
  if (directory.empty()) {
    if (std::holds_alternative<ModelRecipeOptions>(recipe)) {
      recipe = Native28Options{.truncated = truncated_of(recipe)};
    }
    return {};
  }
  if (!std::holds_alternative<ModelRecipeOptions>(recipe)) {
    recipe = ModelRecipeOptions{.directory = {}, .truncated = truncated_of(recipe)};
  }
  std::get<ModelRecipeOptions>(recipe).directory = directory;
  return {};
}

Status set_image_size(NodeOptions& options, std::string_view value) {
  ISOCOST_ASSIGN(ImageSize size, parse_image_size(value));
  auto* recipe = std::get_if<ModelRecipeOptions>(&options.decode.recipe);
  if (recipe == nullptr && !size.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "it is for a model's pictures; give model, or for the recipe native28 its "
                 "max_image_patches");
  }
  if (recipe != nullptr) recipe->image_size = std::move(size);
  return {};
}

Status set_truncated(NodeOptions& options, std::string_view value) {
  if (value != "bad" && value != "accept") return bad_value(value, "one of bad|accept");
  const auto truncated = value == "bad" ? Truncated::kBad : Truncated::kAccept;
  std::visit([truncated](auto& recipe) { recipe.truncated = truncated; }, options.decode.recipe);
  return {};
}

Status check_recipe_name(NodeOptions&, std::string_view name) {
  if (name == Native28Options::kName) return {};
  return Error(ErrorCode::kInvalidArgument, "there is none called '" + std::string(name) +
                                                "'; use " + std::string(Native28Options::kName) +
                                                ", or give a model's directory as model");
}

std::vector<OptionSpec> recipe_options() {
  using M = ModelRecipeOptions;
  using R = Native28Options;
  return {
      {"model", "DIR",
       "A model's directory, as transformers' from_pretrained takes it: its files say how "
       "media are prepared, and isocost tokenize has made tokens of the text. Empty: the "
       "recipe.",
       set_model,
       [](const NodeOptions& options) { return model_directory(options.decode.recipe).string(); }},
      {"image_size", "KEY=N,...",
       "Sizes of a model's pictures in place of those of its directory, by the keys of its image "
       "processor, as in max_pixels=1003520; videos have the directory's.",
       set_image_size,
       [](const NodeOptions& options) {
         const auto* recipe = std::get_if<M>(&options.decode.recipe);
         return recipe == nullptr ? "" : image_size_text(recipe->image_size);
       }},
      of_model(choice(
          "resize_order", &M::resize_order, {"width-first", "pillow-13"},
          "Which side of a model's pictures is resized first: width, as torchvision and Pillow "
          "before 13 do, or as Pillow 13 does, which often begins with the height.")),
      of_model(choice(
          "exactness", &M::exactness, {"exact", "fast"},
          "How near a model's pictures are to those of its own processor: equal, or about equal, "
          "where JPEGs are scaled down while they are decoded.")),
      of_model(choice(
          "alpha", &M::alpha, {"white", "drop"},
          "What becomes of the transparency of a model's pictures: they are composed on white, "
          "or it is ignored.")),
      {"truncated", "bad|accept",
       "What becomes of a picture whose file is cut off: its sample is bad, or what is missing is "
       "grey in a JPEG and zero elsewhere, as with Pillow's LOAD_TRUNCATED_IMAGES.",
       set_truncated,
       [](const NodeOptions& options) {
         return truncated_of(options.decode.recipe) == Truncated::kAccept ? "accept" : "bad";
       }},
      of_native28({"recipe.name", "NAME",
                   "How media are prepared without a model's directory; native28 is the only such "
                   "recipe.",
                   check_recipe_name,
                   [](const NodeOptions&) { return std::string(Native28Options::kName); }}),
      of_native28(number("recipe.max_image_patches", &R::max_image_patches,
                         "Images with more 14-pixel patches are scaled down.")),
      of_native28(number("recipe.max_frame_patches", &R::max_frame_patches,
                         "Video frames with more 14-pixel patches are scaled down.")),
      of_native28(number("recipe.video_fps", &R::video_fps, "Frames sampled per second of video.")),
      of_native28(number("recipe.max_video_frames", &R::max_video_frames,
                         "Frames sampled per video, at most.")),
      of_native28(number("recipe.max_audio_seconds", &R::max_audio_seconds,
                         "Seconds of audio per part; the rest is cut off.")),
      of_native28(number("recipe.max_text_tokens", &R::max_text_tokens,
                         "Tokens of text per part; the rest is cut off.")),
  };
}

// NOLINTNEXTLINE(readability-function-size): as plan_options.
std::vector<OptionSpec> decode_options() {
  using B = BadSampleOptions;
  using D = DecodeOptions;
  return {
      choice("on_bad_sample", &B::policy, {"skip", "replace", "fail"},
             "A bad sample is left out, replaced by another one, or ends training."),
      text_option(
          "max_bad_samples", &B::max, "N|P%",
          "Bad samples beyond which training ends: a number, or a percentage of the samples "
          "looked at, which counts from ten bad samples on."),
      text_option("bad_samples_file", &B::file, "FILE",
                  "JSON lines: shard, key, part and reason of each bad sample."),
      text_option(
          "allow_broken_shards", &ShardOptions::allow_broken, "N|P%",
          "Shards that may be damaged or lost: a number, or a percentage of all shards. With "
          "more, nothing starts; otherwise what can be read of them is used."),
      flag_option(
          "accept_unread_archives", &ShardOptions::accept_unread,
          "Pass over archives that are not read without a warning: those of other formats "
          "and directories of shards beside the shards, and what stands behind their ends."),
      number("max_decoded_pixels", &D::max_decoded_pixels,
             "Images and frames with more pixels are refused as bad samples. The index keeps the "
             "choice, so give all commands the same. The size to which a model's pictures are "
             "scaled is image_size."),
      size("memory", &D::memory,
           "Budget for decoding, decoded samples and blocks of shared memory."),
      size("microbatch_memory", &PlanOptions::microbatch_memory,
           "Limit of tensor bytes per microbatch, with balance = cost; 0: no limit. A sample with "
           "more is bad."),
      number("workers", &D::workers, "Decoding threads or processes; 0: one per core."),
      milliseconds("io_timeout", &D::io_timeout,
                   "Seconds that reads of shards may fail, with delivery paused, before the job "
                   "ends."),
      milliseconds(
          "decode_timeout", &D::decode_timeout,
          "Seconds of CPU time that decoding one sample may take; one that takes longer is "
          "bad."),
      flag_option("isolate", &D::isolate,
                  "Decode in worker processes, so that a decoder that crashes or hangs costs one "
                  "sample; isocost serve does unless told otherwise."),
      text_option("decode_program", &D::decode_program, "FILE",
                  "The isocost program that decode workers run; empty: the running one."),
      text_option("index_dir", &D::index_dir, "DIR",
                  "Where shard indexes are kept; empty: .isocost beside the shards."),
      text_option(
          "ca_file", &D::ca_file, "FILE",
          "Certificates of the authorities that servers of HTTPS are checked against; empty: the "
          "file of SSL_CERT_FILE or AWS_CA_BUNDLE, else the system's."),
      text_option(
          "cache", &D::cache, "DIR",
          "Directory on a local disk where bytes of shards on servers are kept for the next "
          "epoch and for other processes; empty: none."),
      size("cache_size", &D::cache_size,
           "What cache may take on the disk, for all processes together."),
      text_option("ignore_parts", &ReadingOptions::ignore_parts, "EXTENSIONS",
                  "Extensions of parts that are left out of samples, as in avif,heic. The index "
                  "keeps the choice, so give all commands the same."),
      text_option("weight_key", &ReadingOptions::weight_key, "KEY",
                  "Member of a sample's JSON that scales its loss; empty: none does. The index "
                  "keeps the choice, so give all commands the same."),
      text_option("media_root", &ReadingOptions::media_root, "DIR",
                  "Directory where the relative paths of media in a file of records start; empty: "
                  "the file's own. Give all commands the same."),
      flag_option("number_keys", &ReadingOptions::number_keys,
                  "Call the samples of a file of records by their line or array element instead "
                  "of by their id, which may then be repeated. Give all commands the same."),
      text_option("text", &ReadingOptions::text, "PLACE",
                  "Where a sample's text stands in a shard, as in json[caption],txt; empty: its "
                  "text parts, or the text of its JSON. The index keeps the choice, so give all "
                  "commands the same."),
      text_option("format", &ReadingOptions::format, "FORMAT",
                  "How a directory is read: webdataset, energon, mds or records; empty: its files "
                  "say. Give all commands the same."),
      text_option("split", &ReadingOptions::split, "NAME",
                  "The split of a data set that has splits; empty: train of Energon. Give all "
                  "commands the same."),
  };
}

std::vector<OptionSpec> service_options() {
  using S = ServiceOptions;
  return {
      number("plan_ahead", &S::plan_ahead, "Steps decoded and planned ahead of training."),
      text_option("bind", &S::bind, "ENDPOINT", "ZeroMQ endpoint; port * picks a free one."),
      flag_option("insecure", &S::insecure,
                  "Let clients in without a key: those of other users of this machine, and, with "
                  "an address beyond loopback, those of everybody who reaches it."),
      text_option("curve_key", &S::curve_key, "FILE",
                  "Secret key from isocost keygen; clients need its public half."),
      text_option("curve_clients", &S::curve_clients, "FILE",
                  "Public keys of the clients let in, one per line; empty: any client that knows "
                  "the node's key."),
      number("io_threads", &S::io_threads,
             "Threads of ZeroMQ, 1 to 64, each of which moves the bytes of some of the trainers. "
             "Raise it if trainers on other hosts together need more than one thread moves: 1.7 "
             "GB/s on the machine where it was measured, or 0.7 with CURVE keys."),
      flag_option("shared_memory", &S::shared_memory,
                  "Trainers of this user on this host receive microbatches in shared memory, "
                  "without a copy of their own. It counts in memory until they drop the tensors; "
                  "where there is none left, microbatches go over the socket."),
      milliseconds("heartbeat_timeout", &S::heartbeat_timeout,
                   "Seconds without a heartbeat before a trainer is considered lost. Ranks that "
                   "wait for it fail after a second time-out of the same length."),
      milliseconds("stall_timeout", &S::stall_timeout,
                   "Seconds without a microbatch acknowledged or, while none is due, a step "
                   "planned or sent, after which logs, metrics and /healthz say what is in the "
                   "way; 0: never."),
      text_option("metrics", &S::metrics, "ADDRESS",
                  "Address of the HTTP endpoint for metrics: PORT (of 127.0.0.1), ADDRESS:PORT or "
                  "[IPV6]:PORT; empty: no endpoint."),
      text_option("summary", &S::summary, "FILE",
                  "JSON report written when the node ends; empty: none."),
  };
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
    std::vector<OptionSpec> table = plan_options();
    for (auto* part : {&recipe_options, &decode_options, &service_options}) {
      for (OptionSpec& spec : part()) table.push_back(std::move(spec));
    }
    return table;
  }();
  return the_table;
}

const OptionSpec* find_node_option(std::string_view name) {
  const auto& table = node_option_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const OptionSpec& spec) { return spec.name == name; });
  return found == table.end() ? nullptr : &*found;
}

Status apply(const GivenSettings& settings, NodeOptions& options) {
  // A model comes first, since its directory decides which other settings it has.
  const auto set = [&options](const Setting& given) -> Status {
    ISOCOST_TRY_CONTEXT(given.option->set(options, given.value), given.source);
    return {};
  };
  const Setting* model = settings.find("model");
  if (model != nullptr) ISOCOST_TRY(set(*model));
  for (const Setting& given : settings.list()) {
    if (given.option->name != "model") ISOCOST_TRY(set(given));
  }
  return {};
}

namespace {

// Reads the mixture file that `data` names. What a mixture has of its own is refused where it was
// given.
Status use_mixture(const GivenSettings& settings, NodeOptions& options) {
  ISOCOST_ASSIGN(NamedData named, read_data(options.data, options.decode.reading));
  if (!named.mixture) return {};
  MixtureDescription& mixture = *named.mixture;
  if (const Setting* tail = settings.find("tail"); tail != nullptr) {
    return Error(ErrorCode::kInvalidArgument,
                 tail->source + ": " + options.data +
                     " is a mixture, which has no tail: every batch is full but for the last one "
                     "of all; leave it out");
  }
  const bool by_size = mixture.sources.front().schedule.points.empty();
  if (!by_size && options.plan.epochs > 1) {
    const Setting* epochs = settings.find("epochs");
    return Error(ErrorCode::kInvalidArgument,
                 (epochs == nullptr ? "epochs" : epochs->source) + ": " + options.data +
                     " has proportions, and so no epochs: give epochs to its sources, or steps, "
                     "in the file");
  }
  if (!by_size) options.plan.epochs = 1;
  if (const Setting* skipped = settings.find("skip_steps"); skipped != nullptr) {
    if (!mixture.skipped.empty()) {
      return Error(ErrorCode::kInvalidArgument,
                   skipped->source + ": " + options.data +
                       " has skip_steps, too: give them in one of the two places");
    }
    mixture.skipped = options.plan.skip_steps;
  }
  options.sources = std::move(named.sources);
  options.mixture = std::make_shared<const MixtureDescription>(std::move(mixture));
  return {};
}

// Refuses a number of shards that no order would read.
Status check_shuffle_shards(const GivenSettings& settings, ShufflePolicy shuffle) {
  const Setting* shards = settings.find("shuffle_shards");
  if (shards == nullptr || shuffle == ShufflePolicy::kBlocks) return {};
  return Error(ErrorCode::kInvalidArgument,
               shards->source +
                   ": only shuffle = blocks draws from windows of shards, and shuffle is " +
                   std::string(kShufflePolicyNames.at(static_cast<std::size_t>(shuffle))) +
                   ": give shuffle = blocks, or leave it out");
}

}  // namespace

Result<NodeOptions> make_options(const GivenSettings& settings, NodeOptions defaults) {
  NodeOptions options = std::move(defaults);
  const Setting* layout_file = settings.find("layout");
  if (layout_file != nullptr && !layout_file->value.empty()) {
    ISOCOST_ASSIGN(Layout layout, Layout::load(layout_file->value));
    options.plan.use_layout(std::make_shared<const Layout>(std::move(layout)), layout_file->value);
  }
  ISOCOST_TRY(apply(settings, options));
  ISOCOST_TRY(check_shuffle_shards(settings, options.plan.shuffle));
  if (names_mixture(options.data)) ISOCOST_TRY(use_mixture(settings, options));
  ISOCOST_TRY(options.read_files());
  ISOCOST_TRY(options.validate());
  return options;
}

Result<std::int64_t> parse_bytes(std::string_view text) {
  // Prefix letters; an i after one means powers of 1024, and a B at the end is optional.
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
