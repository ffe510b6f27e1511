#include "loader/node/internal/announcer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/loader/node/recording_server.h"
#include "tests/support/log_lines.h"

namespace isocost {
namespace {

using testing::ElementsAre;

TEST(Announcer, TellsClientsWhileTheirServerExists) {
  LogLines log;
  Announcer announcer(log.sink());
  announcer.announce(LogLevel::kInfo, "before");
  RecordingServer server;
  {
    const Announcer::Audience audience(announcer, server);
    announcer.announce(LogLevel::kWarning, "meanwhile");
  }
  announcer.announce(LogLevel::kInfo, "afterwards");
  EXPECT_THAT(server.sent(), ElementsAre("notice meanwhile"));
  EXPECT_THAT(log.lines(), ElementsAre("before", "meanwhile", "afterwards"));
}

}  // namespace
}  // namespace isocost
