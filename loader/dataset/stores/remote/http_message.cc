#include "loader/dataset/stores/remote/http_message.h"

namespace isocost {

std::string_view HttpResponse::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return {};
}

}  // namespace isocost
