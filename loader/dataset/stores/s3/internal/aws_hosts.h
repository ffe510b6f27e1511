#pragma once

#include <string>
#include <string_view>

namespace isocost {

/// Returns whether a text can be a region: letters, digits and '-'. It becomes part of a host.
bool is_region(std::string_view text);

/// Returns what the hosts of AWS in a region end in, such as "amazonaws.com.cn" in China.
std::string_view aws_domain(std::string_view region);

}  // namespace isocost
