#pragma once

#include <string>

#include "balancer/layout/layout.h"

namespace isocost::cli {

/// Returns a shell fragment that sets ISOCOST_ARGS to the flags with which Megatron-LM's
/// examples/multimodal follows the layout. `layout_file` is named in it.
std::string megatron_text(const Layout& layout, const std::string& version,
                          const std::string& layout_file);

}  // namespace isocost::cli
