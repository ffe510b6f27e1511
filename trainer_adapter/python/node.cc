#include "trainer_adapter/python/node.h"

#include <pybind11/stl.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "loader/config.h"
#include "loader/node.h"
#include "trainer_adapter/python/errors.h"
#include "trainer_adapter/python/waiting.h"
#include "transport/keys.h"

namespace isocost::python {
namespace {

namespace py = pybind11;

// Settings by the names of docs/config.md, as text: one table for flags, files and Python.
Result<NodeOptions> node_options(const std::map<std::string, std::string>& settings) {
  NodeOptions options;
  for (const auto& [name, text] : settings) {
    const OptionSpec* found = nullptr;
    for (const OptionSpec& spec : node_option_table()) {
      if (spec.name == name) found = &spec;
    }
    if (found == nullptr) {
      return Error(ErrorCode::kInvalidArgument,
                   name + ": no such setting; docs/config.md lists them");
    }
    ISOCOST_TRY_CONTEXT(found->set(options, text), name);
  }
  return options;
}

class PyNode {
 public:
  explicit PyNode(std::unique_ptr<Node> node) : node_(std::move(node)) {
    serving_ = std::jthread([this](const std::stop_token& stop) { outcome_ = node_->run(stop); });
  }
  ~PyNode() { stop(0); }
  PyNode(const PyNode&) = delete;
  PyNode& operator=(const PyNode&) = delete;

  std::string endpoint() const { return node_->endpoint(); }
  std::string summary() const { return node_->summary().to_json(); }

  /// Lets clients finish, at most so long; then stops and joins.
  void stop(double grace_s) {
    if (!serving_.joinable()) return;
    const py::gil_scoped_release released;
    node_->wait_until_left(std::chrono::milliseconds(static_cast<std::int64_t>(grace_s * 1e3)));
    serving_.request_stop();
    serving_.join();
  }
  void forget() {
    serving_.detach();
    static_cast<void>(node_.release());
  }

 private:
  std::unique_ptr<Node> node_;
  std::optional<Result<NodeSummary>> outcome_;
  std::jthread serving_;
};

std::unique_ptr<PyNode> make_node(const std::map<std::string, std::string>& settings,
                                  const py::function& on_log) {
  NodeOptions options = value(node_options(settings));
  // Called on the node's threads.
  auto callback = std::shared_ptr<py::function>(new py::function(on_log), [](py::function* f) {
    const py::gil_scoped_acquire acquired;
    delete f;
  });
  LogSink log = [callback](LogLevel level, std::string_view text) {
    if (Py_IsInitialized() == 0) return;
    const py::gil_scoped_acquire acquired;
    try {
      (*callback)(static_cast<int>(level), std::string(text));
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("isocost log");
    }
  };
  std::optional<Result<std::unique_ptr<Node>>> node;
  {
    const py::gil_scoped_release released;
    node.emplace(Node::create(options, {}, log));
  }
  return std::make_unique<PyNode>(value(*std::move(node)));
}

py::list option_table() {
  const NodeOptions defaults;
  py::list table;
  for (const OptionSpec& spec : node_option_table()) {
    table.append(py::make_tuple(spec.name, spec.value, spec.text, spec.get(defaults)));
  }
  return table;
}

}  // namespace

void bind_node(py::module_& module) {
  py::class_<PyNode>(module, "Node")
      .def(py::init(&make_node), py::arg("settings"), py::arg("on_log"))
      .def_property_readonly("endpoint", &PyNode::endpoint)
      .def("summary", &PyNode::summary)
      .def("stop", &PyNode::stop, py::arg("grace_s"))
      .def("forget", &PyNode::forget);
  module.def("option_table", &option_table, "[(name, value, text, default)] of docs/config.md");
}

}  // namespace isocost::python
