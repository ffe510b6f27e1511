#include "trainer_adapter/python/extension/tokens.h"

#include <pybind11/stl.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/utf8.h"
#include "decode/recipe.h"
#include "loader/config/data_sources.h"
#include "loader/dataset/index/maker_lock.h"
#include "loader/dataset/token_pass.h"
#include "trainer_adapter/python/extension/errors.h"
#include "trainer_adapter/python/extension/interruptible.h"
#include "trainer_adapter/python/extension/log_sink.h"
#include "trainer_adapter/python/extension/os_text.h"
#include "trainer_adapter/python/extension/waiting.h"

namespace isocost::python {
namespace {

namespace py = pybind11;

// The modality of a medium, and the seconds of its frames where the text depends on them.
using MediumRow = std::tuple<std::string, std::vector<double>>;
// Key, media, the JSON or None, texts, and why the model cannot take the media (empty: it can).
using TextRow = std::tuple<std::string, std::vector<MediumRow>, std::optional<py::bytes>,
                           std::vector<py::bytes>, std::string>;
// Tokens of a sample: ids of 32 bits in this machine's order, a byte for each id that is 1 if it
// is labelled, the ends of turns (TurnEnd, as words of 32 bits), weights of turns (WeightedIds, in
// the same form), and why there are no tokens (empty: there are some).
using TokenRow = std::tuple<py::bytes, py::bytes, py::bytes, py::bytes, std::string>;

Result<std::unique_ptr<TokenPass>> open_pass_of(const std::string& data, const std::string& model,
                                                const std::string& options,
                                                const DatasetOptions& dataset) {
  ISOCOST_ASSIGN(const NamedData named, read_data(data, dataset.reading));
  return TokenPass::open(named.sources, model, options, dataset);
}

std::unique_ptr<TokenPass> open_pass(const OsText& data, const OsText& model,
                                     const std::string& options, const OsText& index_dir,
                                     const std::string& ignore_parts, const std::string& weight_key,
                                     const OsText& media_root, bool number_keys,
                                     const std::string& text, const std::string& format,
                                     const std::string& split, std::int64_t max_decoded_pixels,
                                     const OsText& ca_file, const py::function& on_log) {
  DatasetOptions dataset;
  dataset.index_dir = index_dir.bytes;
  dataset.reading = {ignore_parts, weight_key, media_root.bytes, number_keys, text, format, split};
  dataset.limits.max_pixels = max_decoded_pixels;
  dataset.stores.ca_file = ca_file.bytes;
  dataset.log_remarks = false;  // each process that tokenizes opens the data set
  dataset.log = log_sink(on_log);
  return value(interruptible([&](const std::stop_token& stop) {
    dataset.stop = stop;
    return open_pass_of(data.bytes, model.bytes, options, dataset);
  }));
}

// The lock of those who make the tokens of a directory, as a context manager.
class PyMakerLock {
 public:
  PyMakerLock(OsText file, OsText what, const py::function& on_log)
      : file_(std::move(file.bytes)), what_(std::move(what.bytes)), on_log_(on_log) {}

  void enter() {
    // Logged by this thread between two polls, so that a signal whose handler runs meanwhile ends
    // the wait.
    std::vector<std::pair<LogLevel, std::string>> said;
    MakerLockRequest request(file_, what_, [&](LogLevel level, std::string_view text) {
      said.emplace_back(level, text);
    });
    Result<std::unique_ptr<MakerLock>> taken = std::unique_ptr<MakerLock>();
    wait_interruptibly(
        [&](std::chrono::milliseconds interval) {
          taken = request.poll();
          if (!taken || *taken != nullptr) return true;
          std::this_thread::sleep_for(interval);
          return false;
        },
        [&] {
          for (const auto& [level, text] : std::exchange(said, {})) {
            log_here(on_log_, level, text);
          }
        });
    lock_ = value(std::move(taken));
  }
  void exit() { lock_.reset(); }
  void tell(const std::string& progress) {
    if (lock_ != nullptr) lock_->tell(progress);
  }

 private:
  const std::string file_;
  const std::string what_;
  const py::function on_log_;
  std::unique_ptr<MakerLock> lock_;
};

// A shard: name, number of samples, whether it has the tokens that a pass would write, whether it
// has tokens of the model, why the tokens that it has are not the model's (empty: they are, or
// there are none), and the options that these were made with (None: there are none).
using ShardRow =
    std::tuple<std::string, std::uint64_t, bool, bool, std::string, std::optional<std::string>>;

std::vector<ShardRow> shards_of(const TokenPass& pass) {
  std::vector<ShardRow> shards;
  shards.reserve(pass.shards());
  for (std::size_t i = 0; i < pass.shards(); ++i) {
    shards.emplace_back(printable_utf8(pass.shard_name(i)), pass.samples(i), pass.is_current(i),
                        pass.is_usable(i), printable_utf8(pass.why_stale(i)),
                        pass.recorded_options(i));
  }
  return shards;
}

void check_number(const TokenPass& pass, std::size_t shard) {
  if (shard >= pass.shards()) throw py::index_error("there is no such shard");
}

std::vector<TextRow> texts_of(const TokenPass& pass, std::size_t shard) {
  check_number(pass, shard);
  std::optional<Result<std::vector<SampleText>>> read;
  {
    const py::gil_scoped_release released;
    read.emplace(pass.texts(shard));
  }
  std::vector<TextRow> rows;
  for (const SampleText& sample : value(*std::move(read))) {
    std::vector<MediumRow> media;
    media.reserve(sample.media.size());
    for (const SamplePart& part : sample.media) {
      media.emplace_back(modality_name(part.modality), part.timestamps_s);
    }
    std::vector<py::bytes> texts(sample.texts.begin(), sample.texts.end());
    rows.emplace_back(sample.key, std::move(media),
                      sample.json.empty() ? std::nullopt : std::optional(py::bytes(sample.json)),
                      std::move(texts), sample.reason);
  }
  return rows;
}

template <typename T>
std::vector<T> structs(std::string_view bytes, const char* otherwise) {
  if (bytes.size() % sizeof(T) != 0) throw py::value_error(otherwise);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TokenizedSample sample_of(const TokenRow& row) {
  const auto& [ids, labelled, turns, weights, reason] = row;
  const std::string_view id_bytes = ids;
  const std::string_view label_bytes = labelled;
  TokenizedSample sample{{}, reason};
  sample.tokens.ids.resize(id_bytes.size() / sizeof(std::uint32_t));
  if (id_bytes.size() % sizeof(std::uint32_t) != 0 ||
      label_bytes.size() != sample.tokens.ids.size()) {
    throw py::value_error("ids are 4 bytes each, with one byte of label mask for each");
  }
  if (!id_bytes.empty()) std::memcpy(sample.tokens.ids.data(), id_bytes.data(), id_bytes.size());
  for (const char byte : label_bytes) sample.tokens.labelled.push_back(byte != 0);
  sample.tokens.turns = structs<TurnEnd>(turns, "the end of a turn is five numbers of 4 bytes");
  sample.tokens.weights =
      structs<WeightedIds>(weights, "the weight of a turn is three numbers of 4 bytes");
  return sample;
}

void write(TokenPass& pass, std::size_t shard, const std::vector<TokenRow>& rows) {
  check_number(pass, shard);
  std::vector<TokenizedSample> samples;
  samples.reserve(rows.size());
  for (const TokenRow& row : rows) samples.push_back(sample_of(row));
  Status written;
  {
    const py::gil_scoped_release released;
    written = pass.write(shard, samples);
  }
  value(std::move(written));
}

Recipe recipe_of(const ModelRecipeOptions& options) { return value(Recipe::create(options)); }

// `image_size` is text, as for the setting of a node.
ModelRecipeOptions recipe_options(const OsText& model, const std::string& image_size) {
  auto size = parse_image_size(image_size);
  if (!size) raise(std::move(size).error().with_context("image_size"));
  return {.directory = model.bytes, .image_size = *std::move(size)};
}

// Returns the fingerprints of a model's recipe in all its variants: how a node makes the model's
// pixels does not matter to its clients.
std::vector<std::uint64_t> recipe_fingerprints(const OsText& model, const std::string& image_size) {
  std::vector<std::uint64_t> fingerprints;
  ModelRecipeOptions options = recipe_options(model, image_size);
  for (const ResizeOrder order : {ResizeOrder::kWidthFirst, ResizeOrder::kPillow13}) {
    for (const Exactness exactness : {Exactness::kExact, Exactness::kFast}) {
      for (const Alpha alpha : {Alpha::kWhite, Alpha::kDrop}) {
        for (const Truncated truncated : {Truncated::kBad, Truncated::kAccept}) {
          options.resize_order = order;
          options.exactness = exactness;
          options.alpha = alpha;
          options.truncated = truncated;
          fingerprints.push_back(recipe_of(options).fingerprint());
        }
      }
    }
  }
  return fingerprints;
}

}  // namespace

void bind_tokens(py::module_& module) {
  py::class_<TokenPass>(module, "TokenPass")
      .def(py::init(&open_pass), py::arg("data"), py::arg("model"), py::arg("options"),
           py::arg("index_dir"), py::arg("ignore_parts"), py::arg("weight_key"),
           py::arg("media_root"), py::arg("number_keys"), py::arg("text"), py::arg("format"),
           py::arg("split"), py::arg("max_decoded_pixels"), py::arg("ca_file"), py::arg("on_log"))
      .def_property_readonly("shards", &shards_of)
      .def(
          "tokenized",
          [](const TokenPass& pass, std::size_t shard) {
            check_number(pass, shard);
            return pass.tokenized(shard);
          },
          py::arg("shard"))
      .def_property_readonly(
          "directory", [](const TokenPass& pass) { return OsText{pass.directory().string()}; })
      .def_property_readonly("unread",
                             [](const TokenPass& pass) { return readable(pass.unread()); })
      .def("samples", &texts_of, py::arg("shard"))
      .def("write", &write, py::arg("shard"), py::arg("samples"));
  py::class_<PyMakerLock>(module, "MakerLock")
      .def(py::init<OsText, OsText, const py::function&>(), py::arg("file"), py::arg("what"),
           py::arg("on_log"))
      .def(
          "__enter__",
          [](PyMakerLock& lock) -> PyMakerLock& {
            lock.enter();
            return lock;
          },
          py::return_value_policy::reference)
      .def("__exit__", [](PyMakerLock& lock, const py::args&) { lock.exit(); })
      .def("tell", &PyMakerLock::tell, py::arg("progress"));
  module.attr("tokens_version") = kTokensVersion;
  module.def(
      "recipe_description",
      [](const OsText& model, const std::string& image_size) {
        return recipe_of(recipe_options(model, image_size)).description();
      },
      py::arg("model"), py::arg("image_size") = "",
      "Returns the description of media in a model's directory, as JSON.");
  module.def(
      "recipe_fingerprints", &recipe_fingerprints, py::arg("model"), py::arg("image_size") = "",
      "Hashes of it, one of which a node's welcome message has: its resize_order, exactness, "
      "alpha and truncated decide.");
}

}  // namespace isocost::python
