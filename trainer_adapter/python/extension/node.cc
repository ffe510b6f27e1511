#include "trainer_adapter/python/extension/node.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "balancer/layout/layout.h"
#include "base/utf8.h"
#include "loader/config/given_settings.h"
#include "loader/config/option_table.h"
#include "loader/dataset/names/data_text.h"
#include "loader/dataset/sample_name.h"
#include "loader/node/node.h"
#include "loader/node/node_thread.h"
#include "loader/plan/microbatch_count.h"
#include "loader/plan/plan_options.h"
#include "trainer_adapter/python/extension/errors.h"
#include "trainer_adapter/python/extension/interruptible.h"
#include "trainer_adapter/python/extension/log_sink.h"
#include "trainer_adapter/python/extension/os_text.h"

namespace isocost::python {
namespace {

namespace py = pybind11;

// An embedded node writes no file unless it is asked to.
NodeOptions embedded_defaults() {
  NodeOptions options;
  options.bad_samples.file.clear();
  return options;
}

// Name in docs/config.md, value as text.
using GivenSetting = std::pair<std::string, OsText>;

NodeOptions make_node_options(const std::vector<GivenSetting>& given,
                              const std::optional<Layout>& layout, const OsText& layout_file) {
  GivenSettings settings;
  for (const auto& [name, text] : given) value(settings.add(name, text.bytes, name));
  NodeOptions defaults = embedded_defaults();
  if (layout) defaults.plan.use_layout(std::make_shared<const Layout>(*layout), layout_file.bytes);
  return value(make_options(settings, std::move(defaults)));
}

class PyNode {
 public:
  explicit PyNode(std::unique_ptr<Node> node)
      : serving_(std::make_unique<NodeThread>(std::move(node))) {}
  ~PyNode() {
    if (serving_ == nullptr) return;
    stop(0);
    const py::gil_scoped_release released;  // its threads may be logging
    serving_.reset();
  }
  PyNode(const PyNode&) = delete;
  PyNode& operator=(const PyNode&) = delete;

  OsText endpoint() const { return {serving().endpoint()}; }
  std::string summary() const {
    NodeThread& serving = this->serving();
    const py::gil_scoped_release released;
    return serving.node().summary().to_json();
  }

  /// Waits up to `grace_s` for the clients to leave, then stops the node.
  void stop(double grace_s) {
    if (serving_ == nullptr) return;
    const py::gil_scoped_release released;
    // The node's clients receive the reason of its end, so the result is ignored.
    static_cast<void>(
        serving_->stop(std::chrono::milliseconds(static_cast<std::int64_t>(grace_s * 1e3))));
  }
  /// Forgets the node in a forked child, in which its threads do not run: leaves everything as it
  /// is.
  void forget() {
    // NOLINTNEXTLINE(bugprone-unused-return-value): what it holds belongs to the parent.
    static_cast<void>(serving_.release());
  }

 private:
  NodeThread& serving() const {
    if (serving_ == nullptr) {
      raise(Error(ErrorCode::kCancelled, "the node is the parent process's"));
    }
    return *serving_;
  }

  std::unique_ptr<NodeThread> serving_;
};

py::dict describe(const PartShape& part, std::string_view name) {
  py::dict result;
  result["name"] = printable_utf8(name);
  result["modality"] = std::string(modality_name(part.modality));
  result["format"] = std::string(format_name(part.format));
  result["encoded_bytes"] = part.encoded_bytes;
  switch (part.modality) {
    case Modality::kText:
      result["text_bytes"] = part.text_bytes;
      break;
    case Modality::kVideo:
      result["duration_s"] = static_cast<double>(part.duration_us) * 1e-6;
      [[fallthrough]];
    case Modality::kImage:
      result["width"] = part.width;
      result["height"] = part.height;
      break;
    case Modality::kAudio:
      result["frames"] = part.frames;
      result["sample_rate"] = part.sample_rate;
      result["channels"] = part.channels;
      break;
  }
  return result;
}

py::dict describe(SampleId id, const Dataset& dataset, const Load& load) {
  const SampleShape shape = dataset.shape(id);
  py::list parts;
  for (std::size_t i = 0; i < shape.parts.size(); ++i) {
    parts.append(describe(shape.parts[i], dataset.part_name(id, i)));
  }
  py::dict result;
  result["id"] = id;
  result["shard"] = printable_utf8(dataset.shard(id));
  result["key"] = printable_utf8(dataset.key(id));
  result["parts"] = parts;
  result["llm_tokens"] = load[CostModule::kLlm].units;
  result["label_tokens"] = load.label_tokens;
  return result;
}

// Returns the load changed by what `count_tokens` returned for a sample: {"llm_tokens": n,
// "label_tokens": m}.
Load changed_load(const py::object& said, Load load) {
  if (said.is_none()) return load;
  std::map<std::string, std::int64_t> counts;
  try {
    counts = said.cast<std::map<std::string, std::int64_t>>();
  } catch (const py::cast_error&) {
    throw py::type_error("it returned " + py::repr(said).cast<std::string>() +
                         "; return None, or whole numbers: {'llm_tokens': 12, 'label_tokens': 5}");
  }
  for (const auto& [name, count] : counts) {
    const std::int64_t least = name == "llm_tokens" ? 1 : 0;
    if (count < least) throw py::value_error(name + " must be at least " + std::to_string(least));
    if (name == "llm_tokens") {
      load[CostModule::kLlm] = {};
      load[CostModule::kLlm].add_sequence(std::min(count, std::int64_t{1} << 28));
    } else if (name == "label_tokens") {
      load.label_tokens = count;
    } else {
      throw py::value_error("'" + name + "' is neither llm_tokens nor label_tokens");
    }
  }
  return load;
}

LoadHook load_hook(const py::object& count_tokens) {
  if (count_tokens.is_none()) return {};
  return [callback = hold(count_tokens.cast<py::function>())](SampleId id, const Dataset& dataset,
                                                              const Load& load) -> Result<Load> {
    const py::gil_scoped_acquire acquired;
    try {
      return changed_load((*callback)(describe(id, dataset, load)), load);
    } catch (const std::exception& error) {  // including Python's
      return Error(ErrorCode::kInvalidArgument,
                   "count_tokens= failed for " + sample_name(dataset.shard(id), dataset.key(id)) +
                       ": " + error.what());
    }
  };
}

std::unique_ptr<PyNode> make_node(const NodeOptions& options, const py::function& on_log,
                                  const py::object& count_tokens) {
  const LogSink log = log_sink(on_log);
  LoadHook hook = load_hook(count_tokens);
  return std::make_unique<PyNode>(value(interruptible([&](const std::stop_token& stop) {
    return Node::create(options, {}, log, std::move(hook), stop);
  })));
}

// Name, value, text and default of an option.
using OptionRow = std::tuple<std::string, std::string, std::string, std::string>;

std::vector<OptionRow> option_table() {
  const NodeOptions defaults = embedded_defaults();
  std::vector<OptionRow> table;
  for (const OptionSpec& spec : node_option_table()) {
    table.emplace_back(spec.name, spec.value, spec.text, spec.get(defaults));
  }
  return table;
}

}  // namespace

void bind_node(py::module_& module) {
  py::class_<NodeOptions>(module, "NodeOptions")
      .def(py::init(&make_node_options), py::arg("settings"), py::arg("layout"),
           py::arg("layout_file"));
  py::class_<PyNode>(module, "Node")
      .def(py::init(&make_node), py::arg("options"), py::arg("on_log"), py::arg("lengths"))
      .def_property_readonly("endpoint", &PyNode::endpoint)
      .def("summary", &PyNode::summary)
      .def("stop", &PyNode::stop, py::arg("grace_s"))
      .def("forget", &PyNode::forget);
  module.def(
      "microbatches_of_epoch",
      [](std::int64_t steps, std::int64_t samples, std::int64_t global_batch_size,
         std::int64_t microbatches, std::int64_t ranks) {
        PlanOptions options;
        options.global_batch_size = global_batch_size;
        options.microbatches = microbatches;
        options.ranks = ranks;
        return microbatches_of_epoch(steps, samples, options);
      },
      py::arg("steps"), py::arg("samples"), py::kw_only(), py::arg("global_batch_size"),
      py::arg("microbatches"), py::arg("ranks"),
      "Returns the number of microbatches per rank in an epoch.");
  module.def(
      "join_data",
      [](const std::vector<OsText>& given) {
        std::vector<std::string> texts;
        texts.reserve(given.size());
        for (const OsText& each : given) texts.push_back(each.bytes);
        return OsText{value(join_data(texts))};
      },
      py::arg("texts"), "Returns several texts that name data as one.");
  module.def(
      "option_table", &option_table,
      "Name, value, text and default in an embedded node of each setting in docs/config.md.");
}

}  // namespace isocost::python
