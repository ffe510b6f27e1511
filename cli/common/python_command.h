#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace isocost::cli {

/// A command that the Python package carries out.
struct PythonCommand {
  std::string name;      ///< As it is typed: "isocost tokenize".
  std::string module;    ///< Of the package: "isocost.tokenize", which has a function `main`.
  std::string packages;  ///< What pip installs beside isocost: "tokenizers jinja2".
};

/// Replaces this process by Python, which runs the command: its exit status, signals and streams
/// are those of the command. Python is the one that this program was installed with, or the first
/// one on PATH. Returns only if that fails. Errors: kNotFound, with what to install.
Error run_python(const PythonCommand& command, const std::vector<std::string>& arguments);

}  // namespace isocost::cli
