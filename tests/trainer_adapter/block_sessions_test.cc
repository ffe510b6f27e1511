#include "trainer_adapter/internal/block_sessions.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>

#include "base/file_descriptor.h"

namespace isocost {
namespace {

// Another session is asked for at once.
constexpr std::chrono::milliseconds kPatience{0};

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

class BlockSessionsTest : public testing::Test {
 protected:
  const SharedMemoryOffer offer_{"isocost.test.sessions." + std::to_string(getpid()), {}};
  BlockSessions sessions_;
};

TEST_F(BlockSessionsTest, WhereNobodyListensThereIsNoOtherTry) {
  const auto why_not = sessions_.attach(offer_, kPatience);
  ASSERT_TRUE(why_not.has_value());
  EXPECT_NE(why_not->find("another host"), std::string::npos) << *why_not;
  EXPECT_FALSE(sessions_.needs_session());
  const FileDescriptor listener = listen_on(offer_.socket);
  EXPECT_FALSE(sessions_.attach(offer_, kPatience).has_value()) << "it is told once";
  EXPECT_EQ(sessions_.descriptor(), -1);
}

TEST_F(BlockSessionsTest, WithoutAFreeDescriptorItTriesAgain) {
  const FileDescriptor listener = listen_on(offer_.socket);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto why_not = sessions_.attach(offer_, kPatience);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_FALSE(why_not.has_value());
  EXPECT_EQ(sessions_.descriptor(), -1);
  EXPECT_TRUE(sessions_.needs_session());
  EXPECT_FALSE(sessions_.needs_session()) << "once";
  EXPECT_FALSE(sessions_.attach(offer_, kPatience).has_value());
  EXPECT_GE(sessions_.descriptor(), 0);
  EXPECT_FALSE(sessions_.needs_session());
}

// From the second on, more connections wait than the node has room for.
TEST_F(BlockSessionsTest, AfterThreeTriesItDoesWithout) {
  const FileDescriptor listener = listen_on(offer_.socket);
  ASSERT_FALSE(sessions_.attach(offer_, kPatience).has_value());
  ASSERT_GE(sessions_.descriptor(), 0);
  for (int tries = 0; tries < 3; ++tries) {
    EXPECT_FALSE(sessions_.attach(offer_, kPatience).has_value());
    EXPECT_TRUE(sessions_.needs_session());
  }
  const auto why_not = sessions_.attach(offer_, kPatience);
  ASSERT_TRUE(why_not.has_value());
  EXPECT_NE(why_not->find("cannot connect"), std::string::npos) << *why_not;
  EXPECT_FALSE(sessions_.needs_session());
}

}  // namespace
}  // namespace isocost
