#include "transport/zmq/keys.h"

#include <fcntl.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace isocost {
namespace {

constexpr std::size_t kKeyCharacters = 40;

// Returns whether `text` has the length and characters of a key: libzmq decodes up to the first
// NUL, and takes any multiple of five characters.
bool is_key(const std::string& text) {
  std::array<std::uint8_t, 32> raw{};
  return text.size() == kKeyCharacters && text.find('\0') == std::string::npos &&
         zmq_z85_decode(raw.data(), text.c_str()) != nullptr;
}

// Returns the lines that are neither blank nor comments. A comment starts with '# '; '#' alone is a
// character of Z85.
Result<std::vector<std::string>> lines_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return Error(ErrorCode::kInvalidArgument, file.string() + ": cannot be read");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty() && !line.starts_with("# ")) lines.push_back(line);
  }
  return lines;
}

Result<std::string> value_of(const std::filesystem::path& file, std::string_view name) {
  ISOCOST_ASSIGN(const auto lines, lines_of(file));
  const std::string prefix = std::string(name) + " ";
  for (const std::string& line : lines) {
    if (!line.starts_with(prefix)) continue;
    std::string key = line.substr(prefix.size());
    if (is_key(key)) return key;
  }
  return Error(ErrorCode::kInvalidArgument, file.string() + ": has no line '" + prefix +
                                                "KEY'; `isocost keygen` writes such files");
}

Error not_written(const std::filesystem::path& file, int failure) {
  return {ErrorCode::kIo,
          file.string() + ": cannot be written: " + std::generic_category().message(failure)};
}

Status write_file(const std::filesystem::path& file, const std::string& text, mode_t mode) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor < 0) {
    if (errno == EEXIST) {
      return Error(ErrorCode::kAlreadyExists, file.string() + ": exists; keys are not overwritten");
    }
    return not_written(file, errno);
  }
  const ssize_t count = write(descriptor, text.data(), text.size());
  const bool written = count == static_cast<ssize_t>(text.size());
  const int failure = written ? 0 : count < 0 ? errno : ENOSPC;
  if (close(descriptor) == 0 && written) return {};
  // A partly written key is removed: it would be refused as a key, and then as a file that must not
  // be overwritten.
  const int cause = failure != 0 ? failure : errno;
  unlink(file.c_str());
  return not_written(file, cause);
}

}  // namespace

Result<KeyPair> generate_keys() {
  std::array<char, kKeyCharacters + 1> public_key{};
  std::array<char, kKeyCharacters + 1> secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) {
    return Error(ErrorCode::kUnsupported, "this libzmq was built without CURVE");
  }
  return KeyPair{public_key.data(), secret_key.data()};
}

Status write_keys(const KeyPair& keys, const std::filesystem::path& name) {
  std::error_code ignored;
  if (name.filename().empty() || std::filesystem::is_directory(name, ignored)) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + name.string() + "' names a directory; name the keys in it, like " +
                     (name / "node").string());
  }
  const std::filesystem::path secret = name.string() + ".secret";
  ISOCOST_TRY(
      write_file(secret,
                 "# Isocost secret key: keep it to the node or client that owns it\npublic " +
                     keys.public_key + "\nsecret " + keys.secret_key + "\n",
                 0600));
  auto written =
      write_file(name.string() + ".public",
                 "# Isocost public key: give it to peers\npublic " + keys.public_key + "\n", 0644);
  if (!written) std::filesystem::remove(secret, ignored);  // half a pair is useless
  return written;
}

Result<KeyPair> read_secret_key(const std::filesystem::path& file) {
  ISOCOST_ASSIGN(std::string public_key, value_of(file, "public"));
  ISOCOST_ASSIGN(std::string secret_key, value_of(file, "secret"));
  std::array<char, kKeyCharacters + 1> derived{};
  if (zmq_curve_public(derived.data(), secret_key.c_str()) != 0 || public_key != derived.data()) {
    return Error(ErrorCode::kInvalidArgument,
                 file.string() + ": its public key does not belong to its secret key");
  }
  return KeyPair{std::move(public_key), std::move(secret_key)};
}

Result<std::string> read_public_key(const std::filesystem::path& file) {
  return value_of(file, "public");
}

Result<std::vector<std::string>> read_allowed_keys(const std::filesystem::path& file) {
  ISOCOST_ASSIGN(const auto lines, lines_of(file));
  std::vector<std::string> keys;
  for (const std::string& line : lines) {
    std::string key = line.starts_with("public ") ? line.substr(7) : line;
    if (!is_key(key)) {
      return Error(ErrorCode::kInvalidArgument,
                   file.string() + ": '" + line + "' is not a public key");
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace isocost
