#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "base/file_descriptor.h"
#include "tests/trainer_adapter/fake_connection.h"
#include "trainer_adapter/internal/assembler.h"
#include "trainer_adapter/internal/client_session.h"
#include "trainer_adapter/internal/hand_out.h"

namespace isocost {
namespace {

// A node that has room for one connection, which it never accepts.
FileDescriptor listen_on(const std::string& name) {
  FileDescriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener.get(), /*backlog=*/0), 0);
  return listener;
}

// A client's sessions with a node that offers shared memory.
class MemorySessionTest : public testing::Test {
 protected:
  MemorySessionTest() {
    connection_.on_start = [this] { begin_session(); };
    EXPECT_TRUE(session_.join({}));
  }
  // Begins a session. Another one is asked for at once if the socket is lost. Returns what is
  // logged.
  std::string attach() {
    logged_.clear();
    begin_session();
    return logged_;
  }
  int descriptor() { return connection_.handlers.descriptor(); }
  // Returns whether the client asks for another session.
  bool needs_session() {
    connection_.joins = 0;
    connection_.handlers.on_tick(std::chrono::nanoseconds(0));
    return connection_.joins > 0;
  }

  SharedMemoryOffer offer_;  // none yet
  const std::string name_ = "isocost.test.sessions." + std::to_string(getpid());

 private:
  void begin_session() {
    Welcome welcome;
    welcome.session = ++sessions_;
    welcome.heartbeat_ms = 0;
    welcome.shared_memory = offer_;
    connection_.handlers.on_message(welcome, {});
  }
  ClientOptions options() {
    ClientOptions made;
    made.log = [this](LogLevel, std::string_view text) { logged_ += text; };
    return made;
  }

  std::string logged_;
  std::uint64_t sessions_ = 0;
  const ClientOptions options_ = options();
  BufferPool pool_;
  FakeConnection connection_;
  HandOut hand_out_{options_, connection_};
  Assembler assembler_{options_, pool_};
  ClientSession session_{options_, connection_, hand_out_, assembler_};
};

TEST_F(MemorySessionTest, WhereNobodyListensThereIsNoOtherTry) {
  EXPECT_EQ(descriptor(), -1);
  offer_.socket = name_;
  const std::string why_not = attach();
  EXPECT_NE(why_not.find("microbatches come over the socket and not in shared memory"),
            std::string::npos)
      << why_not;
  EXPECT_NE(why_not.find("another host"), std::string::npos) << why_not;
  EXPECT_FALSE(needs_session());
  const FileDescriptor listener = listen_on(name_);
  EXPECT_EQ(attach(), "") << "it is told once";
  EXPECT_EQ(descriptor(), -1);
}

TEST_F(MemorySessionTest, WithoutAFreeDescriptorItTriesAgain) {
  offer_.socket = name_;
  const FileDescriptor listener = listen_on(name_);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string why_not = attach();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(why_not, "");
  EXPECT_EQ(descriptor(), -1);
  EXPECT_TRUE(needs_session());
  EXPECT_FALSE(needs_session()) << "once";
  EXPECT_EQ(attach(), "");
  EXPECT_GE(descriptor(), 0);
  EXPECT_FALSE(needs_session());
}

// From the second on, more connections wait than the node has room for.
TEST_F(MemorySessionTest, AfterThreeTriesItDoesWithout) {
  offer_.socket = name_;
  const FileDescriptor listener = listen_on(name_);
  ASSERT_EQ(attach(), "");
  ASSERT_GE(descriptor(), 0);
  for (int tries = 0; tries < 3; ++tries) {
    EXPECT_EQ(attach(), "");
    EXPECT_TRUE(needs_session());
  }
  const std::string why_not = attach();
  EXPECT_NE(why_not.find("cannot connect"), std::string::npos) << why_not;
  EXPECT_FALSE(needs_session());
}

}  // namespace
}  // namespace isocost
