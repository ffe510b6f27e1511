#include "loader/dataset/stores/s3/internal/command_words.h"

#include <cstddef>

namespace isocost {
namespace {

// Reads one word at a time.
class WordReader {
 public:
  explicit WordReader(std::string_view line) : line_(line) {}

  bool skip_spaces() {
    at_ = line_.find_first_not_of(" \t\r\n", at_);
    return at_ < line_.size();
  }

  Result<std::string> word() {
    std::string word;
    while (at_ < line_.size() && std::string_view(" \t\r\n").find(line_[at_]) == line_.npos) {
      const char c = line_[at_++];
      if (c == '\'' || c == '"') {
        ISOCOST_TRY(add_quoted(c, word));
      } else if (c == '\\') {
        if (at_ == line_.size()) return wrong("ends in a backslash");
        word += line_[at_++];
      } else {
        word += c;
      }
    }
    return word;
  }

 private:
  static Error wrong(const char* what) { return {ErrorCode::kInvalidArgument, what}; }

  Status add_quoted(char mark, std::string& word) {
    while (at_ < line_.size()) {
      const char c = line_[at_++];
      if (c == mark) return {};
      const bool escapes = mark == '"' && c == '\\' && at_ < line_.size() &&
                           (line_[at_] == '"' || line_[at_] == '\\');
      word += escapes ? line_[at_++] : c;
    }
    return wrong("has a quotation mark that is not closed");
  }

  std::string_view line_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::vector<std::string>> split_command(std::string_view line) {
  std::vector<std::string> words;
  WordReader reader(line);
  while (reader.skip_spaces()) {
    ISOCOST_ASSIGN(std::string word, reader.word());
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace isocost
