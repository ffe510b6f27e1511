#include "loader/config/given_settings.h"

#include <algorithm>
#include <utility>

#include "loader/config/option_table.h"

namespace isocost {

void GivenSettings::add(const OptionSpec& option, std::string value, std::string source) {
  list_.push_back({&option, std::move(value), std::move(source)});
}

Status GivenSettings::add(std::string_view name, std::string value, std::string source) {
  const OptionSpec* option = find_node_option(name);
  if (option == nullptr) {
    return Error(ErrorCode::kInvalidArgument,
                 source + ": no such setting; docs/config.md lists them");
  }
  add(*option, std::move(value), std::move(source));
  return {};
}

void GivenSettings::add(const GivenSettings& later) {
  list_.insert(list_.end(), later.list_.begin(), later.list_.end());
}

const Setting* GivenSettings::find(std::string_view name) const {
  const auto found = std::find_if(list_.rbegin(), list_.rend(), [&](const Setting& setting) {
    return setting.option->name == name;
  });
  return found == list_.rend() ? nullptr : &*found;
}

}  // namespace isocost
