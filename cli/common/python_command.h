#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
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

/// Runs the command in a process of its own, which ends with this one. `on_line` receives the lines
/// of its standard output, without their ends; standard error is this program's. Returns the exit
/// status, 128 + N after signal N. Blocks until the process has ended; a requested stop ends it.
/// Errors: kNotFound, with what to install, if Python cannot be started; kCancelled; kIo.
Result<int> call_python(const PythonCommand& command, const std::vector<std::string>& arguments,
                        const std::function<void(std::string_view line)>& on_line,
                        const std::stop_token& stop);

}  // namespace isocost::cli
