#include "transport/zmq/internal/fragment_messages.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "transport/wire/wire.h"
#include "transport/zmq/internal/frames.h"

namespace isocost {
namespace {

using Keep = std::shared_ptr<const void>;

constexpr std::int64_t kCopyBelow = 1024;  // bytes
// A message with less room than this is closed, to avoid tiny pieces.
constexpr std::int64_t kSmallestPiece = kPieceBytes / 16;

class Packer {
 public:
  explicit Packer(const Fragment& fragment)
      : position_(fragment.position), sample_(fragment.sample) {
    open();
  }

  void add(const NamedTensor& named, const Keep& keep) {
    const SharedTensor& tensor = named.tensor;
    const std::span<const std::byte> bytes = tensor.bytes();
    const auto size = static_cast<std::int64_t>(bytes.size());
    std::int64_t offset = 0;
    do {
      const std::int64_t rest = size - offset;
      if (header_.pieces.size() == kMaxTensors || room() < std::min(rest, kSmallestPiece)) close();
      const std::int64_t taken = std::min(rest, room());
      const auto piece =
          bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(taken));
      header_.pieces.push_back({{named.name, tensor.dtype, tensor.shape}, offset});
      frames_.push_back(taken < kCopyBelow ? copied_frame(piece) : shared_frame(piece, keep));
      held_ += taken;
      offset += taken;
    } while (offset < size);
  }

  std::vector<std::vector<zmq::message_t>> take() {
    if (!header_.pieces.empty()) close();
    return std::move(messages_);
  }

 private:
  std::int64_t room() const { return kPieceBytes - held_; }

  void open() {
    header_ = {position_, sample_, {}};
    frames_.clear();
    frames_.emplace_back();  // placeholder for the header
    held_ = 0;
  }

  void close() {
    frames_.front() = copied_frame(encode(header_));
    messages_.push_back(std::move(frames_));
    open();
  }

  Position position_;
  std::uint32_t sample_;
  FragmentHeader header_;
  std::vector<zmq::message_t> frames_;
  std::int64_t held_ = 0;
  std::vector<std::vector<zmq::message_t>> messages_;
};

}  // namespace

std::vector<std::vector<zmq::message_t>> fragment_messages(const Fragment& fragment,
                                                           const Keep& keep) {
  Packer packer(fragment);
  for (const NamedTensor& named : fragment.tensors) {
    using Both = std::pair<Keep, Keep>;
    packer.add(named, std::make_shared<const Both>(named.tensor.owner, keep));
  }
  return packer.take();
}

}  // namespace isocost
