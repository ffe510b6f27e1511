#include "costmodel/internal/state_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/fingerprint.h"

namespace isocost {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the state is little-endian; a big-endian host needs byte swaps here");

constexpr std::string_view kMagic = "ISCM";
constexpr std::uint8_t kStateVersion = 2;
constexpr double kLargestFactor = 1e30;
constexpr double kLargestSum = 1e30;

std::uint64_t fingerprint_of(std::string_view bytes) {
  Fingerprint hash;
  hash.add(bytes);
  return hash.value();
}

template <typename T>
void put(std::string& bytes, T value) {
  static_assert(std::is_arithmetic_v<T>);
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

// Reads values in sequence. Past the end, values read as zero and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}
  template <typename T>
  T get() {
    T value{};
    if (rest_.size() < sizeof(T)) {
      short_ = true;
      rest_ = {};
      return value;
    }
    std::copy_n(rest_.begin(), sizeof(T), reinterpret_cast<char*>(&value));
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  // Reads a number, which must be finite and within [least, most].
  double number(const char* name, double least, double most) {
    const auto value = get<double>();
    if (std::isfinite(value) && value >= least && value <= most) return value;
    fail(name);
    return least;
  }
  void fail(const char* name) {
    if (wrong_ == nullptr) wrong_ = name;
  }
  std::size_t left() const { return rest_.size(); }
  bool ok() const { return !short_ && wrong_ == nullptr; }
  // Returns the reason why ok() is false.
  std::string why() const {
    return short_ ? "it is truncated" : "'" + std::string(wrong_) + "' has an impossible value";
  }

 private:
  std::string_view rest_;
  bool short_ = false;
  const char* wrong_ = nullptr;  // the first invalid field
};

void put_module(std::string& bytes, const ModuleCorrection::Saved& module) {
  put(bytes, module.noise);
  put(bytes, module.evidence.rows);
  put(bytes, static_cast<std::uint8_t>(module.fitted ? 1 : 0));
  std::uint32_t seen = 0;
  for (std::size_t k = 0; k < kFactors; ++k) {
    put(bytes, module.prior[k]);
    put(bytes, module.learned[k]);
    put(bytes, module.published[k]);
    if (module.evidence.seen(k)) seen |= 1U << k;
  }
  put(bytes, seen);
  for (std::size_t k = 0; k < kFactors; ++k) {
    if ((seen >> k & 1U) == 0) continue;
    put(bytes, module.evidence.b[k]);
    for (std::size_t l = 0; l <= k; ++l) {
      if ((seen >> l & 1U) != 0) put(bytes, module.evidence.a[k][l]);
    }
  }
}

ModuleCorrection::Saved get_module(Reader& reader) {
  ModuleCorrection::Saved module;
  module.noise = reader.number("noise", 1e-4, 1);
  module.evidence.rows = reader.number("rows", 0, 1e12);
  module.fitted = reader.get<std::uint8_t>() != 0;
  for (std::size_t k = 0; k < kFactors; ++k) {
    module.prior[k] = reader.number("prior", 1 / kLargestFactor, kLargestFactor);
    module.learned[k] = reader.number("learned factor", 1 / kLargestFactor, kLargestFactor);
    module.published[k] = reader.number("published factor", 1 / kLargestFactor, kLargestFactor);
  }
  const auto seen = reader.get<std::uint32_t>();
  if (seen >> kFactors != 0) reader.fail("seen factors");
  for (std::size_t k = 0; k < kFactors && reader.ok(); ++k) {
    if ((seen >> k & 1U) == 0) continue;
    module.evidence.b[k] = reader.number("evidence", 0, kLargestSum);
    for (std::size_t l = 0; l <= k; ++l) {
      if ((seen >> l & 1U) != 0)
        module.evidence.a[k][l] = reader.number("evidence", 0, kLargestSum);
    }
  }
  return module;
}

Error corrupt(const std::string& why) { return {ErrorCode::kCorrupt, "cost model state: " + why}; }

}  // namespace

std::string encode_state(const SavedModel& saved, const CostProfile& profile) {
  std::string bytes(kMagic);
  put(bytes, kStateVersion);
  put(bytes, profile.fingerprint());
  for (const ModuleCorrection::Saved& module : saved.correction.modules) put_module(bytes, module);
  put(bytes, static_cast<std::uint8_t>(saved.correction.reprofile ? 1 : 0));
  put(bytes, saved.forward.all_s);
  put(bytes, saved.forward.forward_s);
  put(bytes, fingerprint_of(bytes));
  return bytes;
}

Result<SavedModel> decode_state(std::string_view bytes, const CostProfile& profile) {
  constexpr std::size_t kCheck = sizeof(std::uint64_t);
  if (bytes.size() < kMagic.size() + 1 + kCheck || bytes.substr(0, kMagic.size()) != kMagic) {
    return corrupt("the data does not start with 'ISCM'");
  }
  const auto version = static_cast<std::uint8_t>(bytes[kMagic.size()]);
  if (version != kStateVersion) {
    return Error(ErrorCode::kUnsupported, "cost model state: version " + std::to_string(version) +
                                              " is not supported; this program reads version " +
                                              std::to_string(kStateVersion) +
                                              "; start without the saved state");
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kCheck);
  if (Reader(bytes.substr(body.size())).get<std::uint64_t>() != fingerprint_of(body)) {
    return corrupt("it is damaged or truncated: the checksum does not match");
  }
  Reader reader(body.substr(kMagic.size() + 1));
  if (reader.get<std::uint64_t>() != profile.fingerprint()) {
    return Error(ErrorCode::kInvalidArgument,
                 "cost model state: it was learned with another model profile; start without the "
                 "saved state, or with that profile");
  }
  SavedModel saved;
  for (ModuleCorrection::Saved& module : saved.correction.modules) module = get_module(reader);
  saved.correction.reprofile = reader.get<std::uint8_t>() != 0;
  saved.forward.all_s = reader.number("all_s", 0, kLargestSum);
  saved.forward.forward_s = reader.number("forward_s", 0, saved.forward.all_s);
  if (!reader.ok()) return corrupt(reader.why());
  if (reader.left() != 0) return corrupt("it has extra bytes at the end");
  return saved;
}

}  // namespace isocost
