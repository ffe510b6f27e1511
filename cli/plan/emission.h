#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "balancer/layout/framework.h"
#include "balancer/layout/layout_search.h"
#include "base/result.h"

namespace isocost::cli {

/// The framework that --emit names, and its version.
struct Emission {
  Framework framework = Framework::kAny;
  std::string version;  ///< Release of torch or of megatron-core: "2.6", "0.19".
};

/// Parses "fsdp2", "megatron@0.19"; without a version, the newest one that is known. An empty text
/// gives kAny. Errors: kInvalidArgument naming the known frameworks or versions.
Result<Emission> parse_emission(std::string_view text);

/// Restricts a search to the layouts that the framework runs. Errors: kInvalidArgument naming an
/// option that the framework cannot follow, and what to do.
Status restrict_search(const Emission& emission, LayoutSearchOptions& search);

/// Returns the file to write beside the layout: "layout_fsdp2.py" for "layout.json". Errors:
/// kInvalidArgument if the layout is written to something that is no file.
Result<std::filesystem::path> emitted_file(const Emission& emission,
                                           const std::filesystem::path& layout);

/// Returns the file's text for a complete layout, which was written as `file`.
std::string emitted_text(const Emission& emission, const Layout& layout,
                         const std::filesystem::path& file);

/// Returns what one does with the file, for the user.
std::string emitted_hint(const Emission& emission, const std::filesystem::path& emitted);

}  // namespace isocost::cli
