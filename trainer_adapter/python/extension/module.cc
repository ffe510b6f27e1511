// The extension module isocost._isocost: client, embedded node, tensors, layouts and the
// profiler's method. It links no libtorch, so that one build serves every torch.

#include <pybind11/pybind11.h>

#include "trainer_adapter/python/extension/client.h"
#include "trainer_adapter/python/extension/layout.h"
#include "trainer_adapter/python/extension/node.h"
#include "trainer_adapter/python/extension/pixels.h"
#include "trainer_adapter/python/extension/profiling.h"
#include "trainer_adapter/python/extension/state.h"
#include "trainer_adapter/python/extension/tensor.h"
#include "trainer_adapter/python/extension/tokens.h"
#include "trainer_adapter/python/extension/trained_steps.h"

PYBIND11_MODULE(_isocost, module) {
  module.attr("version") = ISOCOST_VERSION;
  isocost::python::bind_tensor(module);
  isocost::python::bind_client(module);
  isocost::python::bind_layout(module);  // before the node, whose options have a layout
  isocost::python::bind_node(module);
  isocost::python::bind_pixels(module);
  isocost::python::bind_profiling(module);
  isocost::python::bind_state(module);
  isocost::python::bind_tokens(module);
  isocost::python::bind_trained_steps(module);
}
