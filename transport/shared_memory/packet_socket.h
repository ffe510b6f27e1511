#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace isocost {

/// One end of a connection between processes of a host, which keeps packets whole and passes file
/// descriptors: a Unix socket of type SOCK_SEQPACKET with an abstract name, so that no file is left
/// behind. No call blocks. `send` and `shut_down` may be called from any thread, the other
/// functions from one at a time.
class PacketSocket {
 public:
  /// Most bytes of a packet. Larger packets are not sent, and count as corrupt on receipt.
  static constexpr std::size_t kMaxPacketBytes = std::size_t{16} << 10;

  /// Listens under an abstract name. Errors: kUnavailable with what the system says.
  static Result<PacketSocket> listen(const std::string& name);
  /// Connects. Errors: kNotFound if nobody listens under that name on this host, kUnsupported if a
  /// process of another user does; kUnavailable with what the system says, such as that this
  /// process can open no more files, or that too many connections wait.
  static Result<PacketSocket> connect(const std::string& name);
  /// Returns the next connection of a process of this user, and closes those of others; returns
  /// nothing if none waits, or only others' are among the next few. Errors: kUnavailable with what
  /// the system says, such as that this process can open no more files; the connection then still
  /// waits.
  Result<std::optional<PacketSocket>> accept();

  /// Returns false, without having sent any part of the packet, if the other end does not take it
  /// now or is gone. `descriptor` is passed with the packet unless it is negative.
  bool send(std::span<const std::byte> packet, int descriptor = -1) const;

  /// Ends the connection; either end learns of it after the packets that were sent before.
  void shut_down() const;

  struct Packet {
    std::vector<std::byte> bytes;
    FileDescriptor
        descriptor;  ///< Not open if no descriptor came, or if this process may open no more files.
  };
  /// Returns the next packet, or nothing if none has arrived. Errors: kUnavailable if the other end
  /// is gone, kCorrupt for a packet that is too large.
  Result<std::optional<Packet>> receive();

  int descriptor() const { return socket_.get(); }

 private:
  explicit PacketSocket(FileDescriptor socket) : socket_(std::move(socket)) {}
  bool is_of_this_user() const;

  FileDescriptor socket_;
};

}  // namespace isocost
