#pragma once

#include <string>
#include <vector>

namespace isocost {

/// Returns the variables of an environment ("NAME=value" each, up to a null pointer) that a decode
/// worker gets: those that the dynamic linker, the C library, a Python that carries the program and
/// sanitizers read. It gets no other, because variables hold keys of stores and hubs, and a worker
/// decodes what strangers made.
std::vector<std::string> worker_environment(const char* const* variables);

}  // namespace isocost
