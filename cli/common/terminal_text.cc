#include "cli/common/terminal_text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/utf8.h"

namespace isocost::cli {
namespace {

// Returns the bytes of the first `characters` characters of well-formed UTF-8.
std::size_t bytes_of_characters(std::string_view text, std::size_t characters) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U;
    if (begins && characters-- == 0) break;
  }
  return at;
}

}  // namespace

std::size_t terminal_columns(std::size_t otherwise) {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : otherwise;
}

std::string one_line(std::string_view text, std::size_t columns) {
  std::string line;
  for (const char c : text) {
    const bool space = c == '\n' || c == '\r' || c == '\t' || c == ' ';
    if (!space) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
    if (line.size() > 4 * columns + 4) break;  // a character has at most four bytes
  }
  line = printable_utf8(line);
  const std::size_t whole = bytes_of_characters(line, columns);
  if (whole == line.size() || columns == 0) return line.substr(0, whole);
  return line.substr(0, bytes_of_characters(line, columns - 1)) + "…";
}

std::string printable_lines(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of("\n\t");
    lines += printable_utf8(text.substr(0, end));
    if (end == std::string_view::npos) break;
    lines += text[end];
    text.remove_prefix(end + 1);
  }
  return lines;
}

}  // namespace isocost::cli
