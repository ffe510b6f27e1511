// Words of a command line, and the programs that they start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/scratch_directory.h"
#include "loader/dataset/stores/s3/internal/command_words.h"
#include "loader/dataset/stores/s3/internal/run_command.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Words = std::vector<std::string>;

// Python's shlex.split returns the same words.
TEST(CommandWords, AreThoseOfAShell) {
  EXPECT_THAT(split_command(" aws  configure\texport-credentials\n").value(),
              ElementsAre("aws", "configure", "export-credentials"));
  EXPECT_THAT(split_command(R"("/opt/my tool" --a='b c'd "e\"f\\g\h" i\ j '' 'k\l')").value(),
              ElementsAre("/opt/my tool", "--a=b cd", "e\"f\\g\\h", "i j", "", "k\\l"));
  EXPECT_THAT(split_command("a $HOME ~ `b` # c").value(),
              ElementsAre("a", "$HOME", "~", "`b`", "#", "c"));
  EXPECT_TRUE(split_command("").value().empty());
}

TEST(CommandWords, RefuseWhatIsNotClosed) {
  for (const char* line : {"a 'b", "a \"b", "a \"b\\\"", "a\\"}) {
    EXPECT_EQ(split_command(line).error().code(), ErrorCode::kInvalidArgument) << line;
  }
}

Result<std::string> run(const Words& words, const CommandLimits& limits = {},
                        const std::stop_token& stop = {}) {
  return run_command(words, {.variables = {{"A", "b c"}, {"PATH", "/usr/bin:/bin"}}}, stop, limits);
}

TEST(RunCommand, ReturnsWhatAProgramWrites) {
  EXPECT_EQ(run({"/bin/sh", "-c", "printf '%s|%s|' \"$A\" \"$1\"; cat", "x", "$(y) z"}).value(),
            "b c|$(y) z|");
  EXPECT_EQ(run({"true"}).value(), "");
  EXPECT_EQ(run({"/bin/sh", "-c", "head -c 60000 /dev/zero; head -c 100000 /dev/zero >&2"})
                .value()
                .size(),
            60'000U);
}

TEST(RunCommand, SaysHowAProgramFailed) {
  const Error failed =
      run({"/bin/sh", "-c",
           "echo secret; echo first >&2; printf 'the \\033last\\n\\n' >&2; exit 3"})
          .error();
  EXPECT_EQ(failed.code(), ErrorCode::kIo);
  EXPECT_EQ(failed.message(), "ends with status 3: the ?last");
  EXPECT_EQ(run({"/bin/sh", "-c", "kill -9 $$"}).error().message(), "is ended by signal 9");
  const Error absent = run({"/nonexistent/program"}).error();
  EXPECT_EQ(absent.code(), ErrorCode::kNotFound);
  EXPECT_THAT(absent.message(), HasSubstr("cannot be started: No such file"));
  EXPECT_EQ(run({}).error().code(), ErrorCode::kNotFound);
}

bool is_running(pid_t process) { return kill(process, 0) == 0; }

pid_t number_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  pid_t process = 0;
  stream >> process;
  return process;
}

// The process of a killed group is a zombie until init has waited for it.
void expect_ends(pid_t process) {
  ASSERT_GT(process, 1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const std::string status = "/proc/" + std::to_string(process) + "/stat";
  while (is_running(process) && std::chrono::steady_clock::now() < deadline) {
    std::ifstream stream(status);
    std::string id;
    std::string name;
    std::string state;
    stream >> id >> name >> state;
    if (state == "Z") return;
  }
  EXPECT_FALSE(is_running(process));
}

TEST(RunCommand, EndsAProgramWithThoseThatItStarted) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-command").value();
  const std::string file = scratch / "process";
  const Error late = run({"/bin/sh", "-c", "sleep 600 & echo $! > " + file + "; wait"},
                         {.deadline = milliseconds(500)})
                         .error();
  EXPECT_EQ(late.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(late.message(), "takes longer than 1 s");
  expect_ends(number_in(file));
  // This one ends, but leaves another behind that has closed its streams.
  EXPECT_EQ(run({"/bin/sh", "-c", "sleep 600 >&- 2>&- & echo $! > " + file}).value(), "");
  expect_ends(number_in(file));
}

TEST(RunCommand, EndsAProgramThatClosesItsStreams) {
  EXPECT_EQ(run({"/bin/sh", "-c", "exec sleep 600 >&- 2>&-"}, {.deadline = milliseconds(300)})
                .error()
                .code(),
            ErrorCode::kDeadlineExceeded);
}

TEST(RunCommand, EndsAProgramThatWritesTooMuch) {
  const Error endless = run({"/bin/sh", "-c", "yes secret"}).error();
  EXPECT_EQ(endless.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(endless.message(), Not(HasSubstr("secret")));
}

TEST(RunCommand, EndsAProgramThatIsNoLongerWanted) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(run({"sleep", "600"}, {}, stop.get_token()).error().code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace isocost
