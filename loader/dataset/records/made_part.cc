#include "loader/dataset/records/made_part.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "base/utf8.h"
#include "loader/dataset/records/internal/json_records.h"
#include "loader/dataset/records/internal/record_forms.h"

namespace isocost {

Result<std::string> make_part(std::string record, RecordForm form, std::size_t number) {
  ISOCOST_ASSIGN(InputSample sample, RecordForms::of_indexed(form).read(std::move(record), 1));
  if (number < sample.parts.size()) {
    if (auto* made = std::get_if<std::string>(&sample.parts[number].body)) return std::move(*made);
  }
  return corrupt_record("the record has no such part");
}

Result<std::string> make_class_part(std::string_view key) {
  const std::filesystem::path directory = std::filesystem::path(key).parent_path().filename();
  if (directory.empty()) return corrupt_record("lies in no directory that could be its class");
  if (!is_utf8(directory.string())) {
    return corrupt_record("the name of its directory is not UTF-8");
  }
  return nlohmann::json{{"class", directory.string()}}.dump();
}

}  // namespace isocost
