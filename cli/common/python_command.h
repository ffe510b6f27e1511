#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace isocost::cli {

/// A command that the Python package implements.
struct PythonCommand {
  std::string name;      ///< Name as typed: "isocost tokenize".
  std::string module;    ///< Module of the package: "isocost.tokenize", with a function `main`.
  std::string packages;  ///< Packages that pip installs beside isocost: "tokenizers jinja2".
};

/// Replaces this process by Python, which runs the command: its exit status, signals and streams
/// are those of the command. Python is the one that this program was installed with, or the first
/// one on PATH. If it has no package isocost, the one of the program's build tree or prefix is
/// used. Returns only if that fails. Errors: kNotFound, with what to install.
Error run_python(const PythonCommand& command, const std::vector<std::string>& arguments);

}  // namespace isocost::cli
