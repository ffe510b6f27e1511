#pragma once

#include <pybind11/pybind11.h>

namespace isocost::python {

/// Binds `_isocost.TokenPass`, which reads the texts of a data set and writes their tokens, and
/// `_isocost.recipe_description` and `recipe_fingerprints`, which describe how a model's directory
/// treats media.
void bind_tokens(pybind11::module_& module);

}  // namespace isocost::python
