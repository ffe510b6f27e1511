#include "cli/plan/emission.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>

#include "cli/plan/fsdp2_text.h"
#include "cli/plan/megatron_text.h"

namespace isocost::cli {
namespace {

struct KnownVersions {
  Framework framework;
  std::string_view package;
  int major;
  int first_minor;
  int last_minor;
};

// The releases that have what the files use. fully_shard is public from torch 2.6 on. The flags
// are those of megatron-core 0.12 to 0.19.
constexpr std::array<KnownVersions, 2> kKnown = {
    {{Framework::kFsdp2, "torch", 2, 6, 15}, {Framework::kMegatron, "megatron-core", 0, 12, 19}}};

std::string release(int major, int minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

const KnownVersions* known_of(Framework framework) {
  const auto* const found =
      std::find_if(kKnown.begin(), kKnown.end(),
                   [framework](const auto& known) { return known.framework == framework; });
  return found == kKnown.end() ? nullptr : found;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "2.8" and "2.8.1" are both release 2.8.
bool is_known(const KnownVersions& known, std::string_view version) {
  const std::size_t dot = version.find('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view rest = version.substr(dot + 1);
  const auto major = number(version.substr(0, dot));
  const auto minor = number(rest.substr(0, rest.find('.')));
  const std::size_t patch = rest.find('.');
  const bool is_number = patch == std::string_view::npos || number(rest.substr(patch + 1));
  return is_number && major == known.major && minor && *minor >= known.first_minor &&
         *minor <= known.last_minor;
}

bool is_module_name(std::string_view stem) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !stem.empty() && is_letter(stem.front()) &&
         std::ranges::all_of(stem, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

Error refused(const std::string& option, const std::string& reason) {
  return {ErrorCode::kInvalidArgument, option + ": " + reason};
}

Status restrict_to_fsdp2(LayoutSearchOptions& search) {
  // Layouts of DistributedDataParallel alone are asked for by --replicate-optimizer.
  search.shard_weights = !search.replicated_optimizer;
  return {};
}

Status restrict_to_megatron(const LayoutSearchOptions& search) {
  if (search.shard_weights) {
    return refused("--shard-weights",
                   "the files for Megatron-LM describe its own data parallelism alone; leave it "
                   "out, or use --emit fsdp2");
  }
  for (const ModuleTraining& training : {search.encoder_training, search.llm_training}) {
    const bool adapts = training.weights == TrainedWeights::kAdapters;
    if (adapts && !trains_adapters(Framework::kMegatron)) {
      return refused("--adapters",
                     "Megatron-LM has no flag for low-rank adapters; freeze the module (--freeze), "
                     "or use --emit fsdp2");
    }
  }
  return {};
}

}  // namespace

Result<Emission> parse_emission(std::string_view text) {
  if (text.empty()) return Emission{};
  const std::size_t at = text.find('@');
  const auto framework = framework_from_name(text.substr(0, at));
  const KnownVersions* const known = framework ? known_of(*framework) : nullptr;
  if (known == nullptr) {
    return Error(ErrorCode::kInvalidArgument,
                 "--emit is '" + std::string(text) +
                     "'; it must be fsdp2 or megatron, with a version if you like: megatron@0.19");
  }
  const std::string newest = release(known->major, known->last_minor);
  if (at == std::string_view::npos) return Emission{known->framework, newest};
  const std::string version(text.substr(at + 1));
  if (!is_known(*known, version)) {
    return Error(ErrorCode::kInvalidArgument,
                 "--emit is '" + std::string(text) + "'; known releases of " +
                     std::string(known->package) + " are " +
                     release(known->major, known->first_minor) + " to " + newest +
                     ": name the nearest, and check what is written against yours");
  }
  return Emission{known->framework, version};
}

Status restrict_search(const Emission& emission, LayoutSearchOptions& search) {
  search.framework = emission.framework;
  if (emission.framework == Framework::kAny) return {};
  if (search.schedule != Schedule::k1F1B) {
    return refused("--schedule", "--emit writes files for 1f1b alone; leave it out");
  }
  return emission.framework == Framework::kFsdp2 ? restrict_to_fsdp2(search)
                                                 : restrict_to_megatron(search);
}

Result<std::filesystem::path> emitted_file(const Emission& emission,
                                           const std::filesystem::path& layout) {
  if (emission.framework == Framework::kAny) return std::filesystem::path();
  // The file is sourced, and names the layout in a comment.
  const std::string name = layout.filename().string();
  if (std::ranges::any_of(name, [](unsigned char c) { return c < ' ' || c == 0x7f; })) {
    return refused("--output",
                   "its name has a control character; --emit writes a file that names "
                   "it, so choose another one");
  }
  std::error_code failed;
  if (std::filesystem::exists(layout, failed) &&
      !std::filesystem::is_regular_file(layout, failed)) {
    return refused("--output", "--emit writes its file beside the layout, and " + layout.string() +
                                   " is no file; name one, such as layout.json");
  }
  const bool python = emission.framework == Framework::kFsdp2;
  if (python && !is_module_name(layout.stem().string())) {
    return refused("--output", "--emit fsdp2 writes a Python module beside the layout, and '" +
                                   layout.stem().string() +
                                   "' is no name of a module; use letters, digits and underscores");
  }
  std::filesystem::path file = layout;
  file.replace_filename(layout.stem().string() + (python ? "_fsdp2.py" : "_megatron.sh"));
  return file;
}

std::string emitted_text(const Emission& emission, const Layout& layout,
                         const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return emission.framework == Framework::kFsdp2 ? fsdp2_text(layout, emission.version, name)
                                                 : megatron_text(layout, emission.version, name);
}

std::string emitted_hint(const Emission& emission, const std::filesystem::path& emitted) {
  if (emission.framework == Framework::kFsdp2) {
    return emitted.string() + ": model = " + emitted.stem().string() +
           ".parallelize(model, encoder_layers=..., llm_layers=...)";
  }
  return emitted.string() + ": source it, then pass \"${ISOCOST_ARGS[@]}\" to Megatron-LM";
}

}  // namespace isocost::cli
