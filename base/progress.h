#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace isocost {

/// Called repeatedly during long work with the amount done, the total, and a description of the
/// work. Calls may come from several threads at once. An empty function discards them.
using ProgressSink =
    std::function<void(std::uint64_t done, std::uint64_t total, std::string_view what)>;

}  // namespace isocost
