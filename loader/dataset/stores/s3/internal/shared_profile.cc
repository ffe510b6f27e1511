#include "loader/dataset/stores/s3/internal/shared_profile.h"

#include <cstddef>
#include <system_error>
#include <utility>

#include "base/read_file.h"
#include "base/utf8.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFileBytes = std::size_t{1} << 20;

// The file that a variable names, else the one in the user's directory; empty: there is none.
fs::path shared_file(const AwsEnvironment& environment, std::string_view variable,
                     std::string_view usual) {
  const std::string_view home = environment.get("HOME");
  std::string named(environment.get(variable));
  if (named.empty()) return home.empty() ? fs::path() : fs::path(home) / usual;
  if (named.starts_with("~/") && !home.empty()) return fs::path(home) / named.substr(2);
  return named;
}

// Clears the path where no file lies there.
Result<IniSections> read_sections(fs::path& file) {
  std::error_code failed;
  if (file.empty() || !fs::exists(file, failed)) {
    file.clear();
    return IniSections();
  }
  const std::string name = "AWS's file " + file.string();
  Result<std::string> text = read_file(name, file, kMostFileBytes);
  if (!text) return Error(ErrorCode::kInvalidArgument, text.error().message());
  Result<IniSections> sections = parse_ini(*text);
  if (!sections) return std::move(sections).error().with_context(name);
  return sections;
}

// "profile a", "profile 'a b'" and "default" are profiles of the config file.
std::string_view name_of_section(std::string_view section, std::string_view kind) {
  if (!section.starts_with(kind)) return {};
  std::string_view name = section.substr(kind.size());
  const std::size_t begin = name.find_first_not_of(" \t");
  if (begin == 0 || begin == name.npos) return {};
  name = name.substr(begin, name.find_last_not_of(" \t") + 1 - begin);
  const bool is_quoted = name.size() > 2 && (name[0] == '"' || name[0] == '\'');
  return is_quoted && name.back() == name[0] ? name.substr(1, name.size() - 2) : name;
}

const IniSection* find_section(const IniSections& sections, std::string_view kind,
                               std::string_view name) {
  for (const auto& [section, values] : sections) {
    if (name_of_section(section, kind) == name) return &values;
  }
  return nullptr;
}

}  // namespace

std::string_view SharedProfile::get(std::string_view key) const {
  for (const IniSection* values : {&credentials, &config}) {
    if (const auto found = values->find(key); found != values->end()) return found->second;
  }
  return {};
}

Result<SharedProfile> read_shared_profile(const AwsEnvironment& environment,
                                          std::string_view profile) {
  SharedProfile shared;
  shared.credentials_file =
      shared_file(environment, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
  shared.config_file = shared_file(environment, "AWS_CONFIG_FILE", ".aws/config");
  if (profile.empty()) profile = environment.get("AWS_PROFILE");
  const bool was_named = !profile.empty();
  shared.name = was_named ? profile : "default";
  ISOCOST_ASSIGN(const IniSections credentials, read_sections(shared.credentials_file));
  ISOCOST_ASSIGN(const IniSections config, read_sections(shared.config_file));
  const auto in_credentials = credentials.find(shared.name);
  const IniSection* in_config = find_section(config, "profile", shared.name);
  if (in_config == nullptr && shared.name == "default" && config.contains("default")) {
    in_config = &config.find("default")->second;
  }
  if (in_credentials != credentials.end()) shared.credentials = in_credentials->second;
  if (in_config != nullptr) shared.config = *in_config;
  if (was_named && in_credentials == credentials.end() && in_config == nullptr) {
    return Error(ErrorCode::kInvalidArgument,
                 "AWS's profile '" + printable_utf8(shared.name) +
                     "' is neither in ~/.aws/config nor in ~/.aws/credentials, nor in the files "
                     "that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name: choose another "
                     "with AWS_PROFILE, or add it");
  }
  if (const std::string_view services = shared.get("services"); !services.empty()) {
    const IniSection* found = find_section(config, "services", services);
    if (found == nullptr) {
      return Error(
          ErrorCode::kInvalidArgument,
          "AWS's profile '" + printable_utf8(shared.name) + "' names [services " +
              printable_utf8(services) + "], which is not in " +
              (shared.config_file.empty() ? "~/.aws/config" : shared.config_file.string()) +
              ": add it, or remove the line 'services'");
    }
    shared.services = *found;
  }
  return shared;
}

}  // namespace isocost
