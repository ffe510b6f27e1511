#include "transport/shared_memory/packet_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/shared_memory/internal/last_error.h"

namespace isocost {
namespace {

constexpr int kType = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;
// Most connections that one call of accept looks at.
constexpr int kTriesAtOnce = 16;

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// Returns the address of an abstract name, which begins with a NUL and has no terminator.
Address abstract_address(const std::string& name) {
  Address address;
  address.name.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof(address.name.sun_path) - 1);
  std::memcpy(&address.name.sun_path[1], name.data(), length);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

// Returns the first descriptor that came with a message, and closes the others.
FileDescriptor take_descriptor(msghdr& message) {
  FileDescriptor first;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= part->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + at, sizeof(number));
      FileDescriptor passed(number);
      if (!first.is_open()) first = std::move(passed);
    }
  }
  return first;
}

}  // namespace

Result<PacketSocket> PacketSocket::listen(const std::string& name) {
  constexpr int kBacklog = 64;
  PacketSocket made{FileDescriptor(socket(AF_UNIX, kType, 0))};
  if (!made.socket_.is_open()) return last_error("cannot make a Unix socket");
  const Address address = abstract_address(name);
  if (bind(made.descriptor(), address.get(), address.size) != 0 ||
      ::listen(made.descriptor(), kBacklog) != 0) {
    return last_error("cannot listen on a Unix socket");
  }
  return made;
}

Result<PacketSocket> PacketSocket::connect(const std::string& name) {
  PacketSocket made{FileDescriptor(socket(AF_UNIX, kType, 0))};
  if (!made.socket_.is_open()) return last_error("cannot make a Unix socket");
  const Address address = abstract_address(name);
  if (::connect(made.descriptor(), address.get(), address.size) != 0) {
    if (errno == ECONNREFUSED) {
      return Error(ErrorCode::kNotFound,
                   "cannot connect to the node's Unix socket: the node is on another host, or has "
                   "another network namespace");
    }
    return last_error("cannot connect to the node's Unix socket");
  }
  if (!made.is_of_this_user()) {
    return Error(ErrorCode::kUnsupported, "a process of another user listens on the Unix socket");
  }
  return made;
}

Result<std::optional<PacketSocket>> PacketSocket::accept() {
  for (int tries = 0; tries < kTriesAtOnce; ++tries) {
    PacketSocket made{
        FileDescriptor(accept4(descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC))};
    if (made.socket_.is_open()) {
      if (made.is_of_this_user()) return std::optional(std::move(made));
    } else if (errno == EAGAIN) {
      return std::optional<PacketSocket>();
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return last_error("cannot accept a connection to the Unix socket");
    }
  }
  return std::optional<PacketSocket>();
}

bool PacketSocket::is_of_this_user() const {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(descriptor(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

bool PacketSocket::send(std::span<const std::byte> packet, int descriptor) const {
  if (packet.size() > kMaxPacketBytes) return false;
  iovec bytes{const_cast<std::byte*>(packet.data()), packet.size()};  // sendmsg does not write
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &descriptor, sizeof(descriptor));
  }
  return sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) == std::ssize(packet);
}

void PacketSocket::shut_down() const { shutdown(descriptor(), SHUT_RDWR); }

Result<std::optional<PacketSocket::Packet>> PacketSocket::receive() {
  std::array<std::byte, kMaxPacketBytes> buffer;  // NOLINT(*-member-init): the system fills it
  iovec bytes{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  constexpr int kFlags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
  ssize_t size = recvmsg(descriptor(), &message, kFlags);
  // If the other end was closed with packets unread, recvmsg reports that once, before the packets
  // that it sent.
  if (size < 0 && errno == ECONNRESET) size = recvmsg(descriptor(), &message, kFlags);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::optional<Packet>();
  if (size < 0) return last_error("the Unix socket failed");
  Packet packet{{}, take_descriptor(message)};
  if (size == 0) return Error(ErrorCode::kUnavailable, "the Unix socket was closed");
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    return Error(ErrorCode::kCorrupt, "a packet of more than " + std::to_string(kMaxPacketBytes) +
                                          " bytes came over the Unix socket");
  }
  packet.bytes.assign(buffer.begin(), buffer.begin() + size);
  return std::optional(std::move(packet));
}

}  // namespace isocost
