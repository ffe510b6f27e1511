#include "cli/common/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace isocost::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Console, LogLinesHaveNoControlCharacters) {
  testing::internal::CaptureStderr();
  const LogSink sink = console_log(/*verbose=*/false);
  sink(LogLevel::kWarning, "caf\xC3\xA9 \x1B]0;owned\x07\r.tar: \xFF is lost");
  const std::string written = testing::internal::GetCapturedStderr();
  EXPECT_THAT(written, HasSubstr("caf\xC3\xA9 ?]0;owned??.tar: ? is lost\n"));
  EXPECT_THAT(written, Not(HasSubstr("\x1B]")));
}

}  // namespace
}  // namespace isocost::cli
