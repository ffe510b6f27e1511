#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/dataset_flags.h"
#include "cli/common/exit_status.h"
#include "cli/common/number_range.h"
#include "cli/common/python_command.h"
#include "cli/data/commands.h"

namespace isocost::cli {
namespace {

// The options of isocost/tokens/token_pass.py, which has their defaults.
struct TokenizeArguments {
  DataWords data;
  std::string model;
  std::optional<std::string> labels;
  std::optional<std::string> caption_template;
  std::optional<std::string> index_dir;
  std::optional<std::string> ignore_parts;
  std::optional<std::string> weight_key;
  std::optional<std::string> media_root;
  bool number_keys = false;
  std::optional<std::string> text;
  std::optional<std::string> format;
  std::optional<std::string> split;
  std::optional<std::string> ca_file;
  std::optional<std::string> image_size;
  std::optional<std::int64_t> max_decoded_pixels;
  std::optional<int> workers;
  bool force = false;
  bool json = false;

  void add_to(CLI::App& command);
  void add_reading(CLI::App& command);
};

// Tokenizers are Python's: models come with them, and Isocost has none of its own. Returns only if
// Python cannot be started.
Result<int> tokenize(const TokenizeArguments& arguments) {
  ISOCOST_ASSIGN(const std::string data, as_usage_error(arguments.data.text()));
  // With "=", a value that begins with "-" is no option.
  std::vector<std::string> words = {"--model=" + arguments.model};
  const auto add = [&words](const char* option, const std::optional<std::string>& value) {
    if (value) words.push_back(std::string(option) + "=" + *value);
  };
  add("--labels", arguments.labels);
  add("--caption-template", arguments.caption_template);
  add("--index-dir", arguments.index_dir);
  add("--ignore-parts", arguments.ignore_parts);
  add("--weight-key", arguments.weight_key);
  add("--media-root", arguments.media_root);
  if (arguments.number_keys) words.emplace_back("--number-keys");
  add("--text", arguments.text);
  add("--format", arguments.format);
  add("--split", arguments.split);
  add("--ca-file", arguments.ca_file);
  add("--image-size", arguments.image_size);
  if (arguments.max_decoded_pixels) {
    add("--max-decoded-pixels", std::to_string(*arguments.max_decoded_pixels));
  }
  if (arguments.workers) add("--workers", std::to_string(*arguments.workers));
  if (arguments.force) words.emplace_back("--force");
  if (arguments.json) words.emplace_back("--json");
  words.insert(words.end(), {"--", data});
  return run_python({"isocost tokenize", "isocost.tokenize", "tokenizers jinja2"}, words);
}

// Adds what is read of the samples.
void TokenizeArguments::add_reading(CLI::App& command) {
  command
      .add_option("--ignore-parts", ignore_parts,
                  "Extensions of parts that are left out of samples, as in avif,heic; the index "
                  "keeps the choice")
      ->type_name("EXTENSIONS");
  command
      .add_option("--weight-key", weight_key,
                  "Member of a sample's JSON that scales its loss [weight]; the index keeps the "
                  "choice")
      ->type_name("KEY");
  command
      .add_option("--media-root", media_root,
                  "Directory where the relative paths of media in a file of records start [the "
                  "file's own]")
      ->type_name("DIR");
  command.add_flag("--number-keys", number_keys,
                   "Call the samples of a file of records by their line or array element");
  command
      .add_option("--text", text,
                  "Where a sample's text stands in a shard, as in json[caption],txt [its text "
                  "parts, or the text of its JSON]; the index keeps the choice")
      ->type_name("PLACE");
  command
      .add_option("--format", format,
                  "How a directory is read: webdataset, energon, mds or records [its files say]")
      ->type_name("FORMAT");
  command
      .add_option("--split", split, "The split of a data set that has splits [train of Energon]")
      ->type_name("NAME");
  command
      .add_option("--ca-file", ca_file,
                  "Certificates of the authorities that servers of HTTPS are checked against [that "
                  "of SSL_CERT_FILE or AWS_CA_BUNDLE, else the system's]")
      ->type_name("FILE");
}

void TokenizeArguments::add_to(CLI::App& command) {
  data.add_to(command);
  command
      .add_option("--model", model,
                  "The model's directory: config.json, tokenizer.json, chat_template.jinja")
      ->type_name("DIR")
      ->required();
  command
      .add_option(
          "--labels", labels,
          "What the model learns to write: the assistant's turns, its last turn, or all [as "
          "the tokens that there are, else assistant]")
      ->check(CLI::IsMember({"assistant", "last", "all"}));
  command
      .add_option(
          "--caption-template", caption_template,
          "The user's turn before a caption; <media> stands for the media [as the tokens that "
          "there are, else <media>]")
      ->type_name("TEXT");
  command
      .add_option("--index-dir", index_dir,
                  "Where indexes and tokens are kept [.isocost beside the shards]")
      ->type_name("DIR");
  add_reading(command);
  command
      .add_option("--image-size", image_size,
                  "Sizes of the model's pictures, as for 'isocost serve'; tokens do not depend on "
                  "them")
      ->type_name("KEY=N,...");
  command
      .add_option("--max-decoded-pixels", max_decoded_pixels,
                  "Images and frames with more pixels are bad; the index keeps the choice")
      ->check(number_range(1, std::int64_t{1} << 40));
  command.add_option("--workers", workers, "Number of processes [one for each core]")
      ->check(number_range(1, 1024));
  command.add_flag("--force", force,
                   "Make current tokens anew that were made with other --labels or "
                   "--caption-template");
  command.add_flag("--json", json, "Print the summary as JSON");
}

constexpr const char* kTokenizeFooter =
    "Each sample's text becomes token ids with the model's own tokenizer.json and chat template.\n"
    "Text is JSON with `messages` or `conversations`, or a caption; for Whisper the transcript of\n"
    "a sound. The ids are kept beside the index of the shards; shards whose tokens are current "
    "are\n"
    "skipped, so a pass that was interrupted goes on where it was. A sample that cannot be\n"
    "tokenized is written with the reason, and counts as bad when it is loaded. The work is done\n"
    "by the Python package isocost, which needs tokenizers and jinja2.\n"
    "Examples:\n"
    "  isocost tokenize data/shards --model Qwen2-VL-2B-Instruct\n"
    "  isocost tokenize data/shards --model DIR --labels last --index-dir /fast/index";

}  // namespace

void add_tokenize(CLI::App& app, Run& run) {
  add_command<TokenizeArguments>(
      app, run,
      {.name = "tokenize",
       .description = "Make tokens of the text of shards, for a model's directory.",
       .footer = kTokenizeFooter},
      tokenize);
}

}  // namespace isocost::cli
