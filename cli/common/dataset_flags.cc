#include "cli/common/dataset_flags.h"

#include <cstddef>

#include "cli/common/console.h"
#include "cli/common/number_range.h"
#include "loader/config/data_sources.h"
#include "loader/dataset/names/data_text.h"

namespace isocost::cli {

void DataWords::add_to(CLI::App& command) {
  command.add_option("DATA", words, "What to read: " + std::string(kDataHelp))->required();
}

Result<std::string> DataWords::text() const { return join_data(words); }

Result<DataSources> DataWords::sources(const ReadingOptions& reading) const {
  ISOCOST_ASSIGN(const std::string data, text());
  ISOCOST_ASSIGN(NamedData named, read_data(data, reading));
  return std::move(named.sources);
}

void add_reading(CLI::App& command, ReadingOptions& reading) {
  command
      .add_option("--ignore-parts", reading.ignore_parts,
                  "Extensions of parts that are left out of samples, as in jxl,seg.png; the index "
                  "keeps the choice")
      ->type_name("EXTENSIONS");
  command
      .add_option("--weight-key", reading.weight_key,
                  "Member of a sample's JSON that scales its loss; empty: none does; the index "
                  "keeps the choice")
      ->type_name("KEY")
      ->capture_default_str();
}

namespace {

// Adds the options that say how records in place are read, what a directory is, and where texts
// stand.
void add_form_of_data(CLI::App& command, ReadingOptions& reading) {
  command
      .add_option("--media-root", reading.media_root,
                  "Directory where the relative paths of media in a file of records start; empty: "
                  "the file's own")
      ->type_name("DIR");
  command.add_flag("--number-keys", reading.number_keys,
                   "Call the samples of a file of records by their line or array element instead "
                   "of by their id, which may then be repeated");
  command
      .add_option("--text", reading.text,
                  "Where a sample's text stands in a shard, as in json[caption],txt; empty: its "
                  "text parts, or the text of its JSON; the index keeps the choice")
      ->type_name("PLACE");
  command
      .add_option("--format", reading.format,
                  "How a directory is read: webdataset, energon, mds or records; empty: its files "
                  "say")
      ->type_name("FORMAT");
  command
      .add_option("--split", reading.split,
                  "The split of a data set that has splits; empty: train of Energon")
      ->type_name("NAME");
}

}  // namespace

void add_index_and_reading(CLI::App& command, std::string& index_dir, ReadingOptions& reading) {
  command
      .add_option("--index-dir", index_dir,
                  "Where indexes are kept; empty: .isocost beside the shards")
      ->type_name("DIR");
  add_reading(command, reading);
  add_form_of_data(command, reading);
}

void DatasetFlags::add_to(CLI::App& command) {
  data.add_to(command);
  add_index_and_reading(command, index_dir, reading);
  command
      .add_option("--max-decoded-pixels", max_decoded_pixels,
                  "Images and frames with more pixels are bad; the index keeps the choice")
      ->capture_default_str();
  command
      .add_option("--workers", workers,
                  "Worker threads; 0: one per core, at least 8 to index plain tars")
      ->check(number_range(0, 1024))
      ->capture_default_str();
  command.add_flag("--json", json, "Print JSON instead of text");
  command.add_flag("--verbose", verbose, "Log debug messages as well");
}

DatasetOptions DatasetFlags::options() const {
  DatasetOptions options;
  options.limits.max_pixels = max_decoded_pixels;
  options.index_dir = index_dir;
  options.reading = reading;
  options.workers = static_cast<std::size_t>(workers);
  options.progress = progress_bar();
  options.log = console_log(verbose);
  return options;
}

}  // namespace isocost::cli
