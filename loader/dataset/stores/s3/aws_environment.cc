#include "loader/dataset/stores/s3/aws_environment.h"

#include <unistd.h>

namespace isocost {

std::string_view AwsEnvironment::get(std::string_view name) const {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string_view() : std::string_view(found->second);
}

AwsEnvironment process_environment() {
  AwsEnvironment environment;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::size_t equals = text.find('=');
    if (equals == text.npos) continue;
    environment.variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

}  // namespace isocost
