#include "loader/dataset/stores/s3/internal/ini_file.h"

#include <cstddef>

#include "base/utf8.h"

namespace isocost {
namespace {

constexpr std::string_view kSpacesOfFile = " \t\r\f\v";

std::string_view stripped(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpacesOfFile);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpacesOfFile) + 1 - begin);
}

bool is_comment(std::string_view line) { return line.starts_with('#') || line.starts_with(';'); }

class IniParser {
 public:
  Status add_line(std::string_view line) {
    ++number_;
    const std::string_view content = stripped(line);
    if (content.empty() || is_comment(content)) return {};
    const bool is_indented = kSpacesOfFile.find(line.front()) != kSpacesOfFile.npos;
    if (is_indented && !name_.empty()) return add_below(content);
    if (content.front() == '[') return begin_section(content);
    return add_value(content);
  }

  IniSections take() { return std::move(sections_); }

 private:
  Error wrong(const std::string& what) const {
    return {ErrorCode::kInvalidArgument, "line " + std::to_string(number_) + " " + what};
  }

  Status begin_section(std::string_view content) {
    const std::size_t end = content.rfind(']');
    if (end == content.npos || end < 2) return wrong("begins a section that has no name");
    const auto [section, is_new] = sections_.try_emplace(std::string(content.substr(1, end - 1)));
    if (!is_new) return wrong("begins a section that is there already");
    section_ = &section->second;
    name_.clear();
    return {};
  }

  Status add_value(std::string_view content) {
    if (section_ == nullptr) return wrong("is in no section such as [default]");
    const std::size_t delimiter = content.find_first_of("=:");
    const std::string_view name = stripped(content.substr(0, delimiter));
    if (delimiter == content.npos || name.empty()) return wrong("is no 'name = value'");
    name_ = lower_ascii(name);
    return keep(name_, stripped(content.substr(delimiter + 1)));
  }

  // A line that is indented continues the value, or is one of those below a name without value.
  Status add_below(std::string_view content) {
    const std::size_t equals = content.find('=');
    std::string& value = (*section_)[name_];
    if (!value.empty()) {
      value.append("\n").append(content);
      return {};
    }
    if (equals == content.npos) return wrong("is no 'name = value'");
    return keep(name_ + "." + lower_ascii(stripped(content.substr(0, equals))),
                stripped(content.substr(equals + 1)));
  }

  Status keep(const std::string& name, std::string_view value) {
    if (!section_->emplace(name, value).second) return wrong("sets a name that is set already");
    return {};
  }

  IniSections sections_;
  IniSection* section_ = nullptr;
  std::string name_;
  int number_ = 0;
};

}  // namespace

Result<IniSections> parse_ini(std::string_view text) {
  text = without_byte_order_mark(text);
  IniParser parser;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    ISOCOST_TRY(parser.add_line(line));
  }
  return parser.take();
}

}  // namespace isocost
