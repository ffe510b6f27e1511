#pragma once

#include <string>

#include "balancer/layout/layout.h"

namespace isocost::cli {

/// Returns a Python module that shards a model as the layout says. `layout_file` is named in it.
std::string fsdp2_text(const Layout& layout, const std::string& version,
                       const std::string& layout_file);

}  // namespace isocost::cli
