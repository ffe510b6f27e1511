// Runs examples/pipeline_trainer as users do: encoder and LLM stages in separate processes, on real
// media.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "costmodel/profile.h"
#include "examples/pipeline_trainer/tensor_file.h"
#include "tests/e2e/loop_fixture.h"
#include "trainer_adapter/state.h"

namespace isocost {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kTolerance = 1e-9;
constexpr double kEncoderLaunch = 0.02;  // s

/// The program, and the output of it and of its processes.
class Program {
 public:
  explicit Program(const std::vector<std::string>& arguments) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDERR_FILENO);
    std::vector<std::string> all = {ISOCOST_PIPELINE_TRAINER};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& argument : all) argv.push_back(argument.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &files, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    output_end_ = ends[0];
  }
  ~Program() {
    if (!ended_) {
      kill(pid_, SIGKILL);  // ends its processes, too
      waitpid(pid_, nullptr, 0);
    }
    close(output_end_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& output() const { return output_; }

  /// Reads until `text` has been printed. Returns false if the output ends or time is up before.
  bool read_until(const std::string& text) {
    while (output_.find(text) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }

  /// Reads until every process has closed the output, so that none is left. Returns the exit
  /// status, or 128 + the signal's number; -1 if time is up.
  int finish() {
    while (read_some()) {
    }
    if (late_) return -1;
    int status = 0;
    waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  /// Returns the process id of a stage, from the line "<name>: process N".
  pid_t process(const std::string& name) const {
    std::istringstream lines(output_);
    for (std::string line; std::getline(lines, line);) {
      const std::string begin = name + ": process ";
      if (line.starts_with(begin)) return std::stoi(line.substr(begin.size()));
    }
    ADD_FAILURE() << "no process " << name << " in\n" << output_;
    return 0;
  }

 private:
  bool read_some() {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline_ - std::chrono::steady_clock::now());
    pollfd wanted{.fd = output_end_, .events = POLLIN, .revents = 0};
    late_ = left.count() <= 0 || poll(&wanted, 1, static_cast<int>(left.count())) != 1;
    if (late_) return false;
    std::array<char, 4096> chunk{};
    const ssize_t got = read(output_end_, chunk.data(), chunk.size());
    if (got > 0) output_.append(chunk.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  pid_t pid_ = 0;
  int output_end_ = -1;
  bool ended_ = false;
  bool late_ = false;
  std::string output_;
  std::chrono::steady_clock::time_point deadline_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(90);
};

class PipelineTrainer : public LoopTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(temporary());
    setenv("TMPDIR", temporary().c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    EXPECT_TRUE(std::filesystem::is_empty(temporary()) || killed_) << "files were left behind";
  }

  std::filesystem::path temporary() const { return scratch() / "tmp"; }
  std::vector<std::string> arguments(const std::string& more) const {
    std::vector<std::string> all = {"--data", shards().string(), "--peer-timeout", "30"};
    std::istringstream words(more);
    for (std::string word; words >> word;) all.push_back(word);
    return all;
  }
  nlohmann::json train(const std::string& more) {
    const std::filesystem::path file = scratch() / "outcome.json";
    Program program(arguments(more + " --json " + file.string()));
    EXPECT_EQ(program.finish(), 0) << program.output();
    EXPECT_THAT(program.output(), Not(HasSubstr("refused")));
    std::ifstream in(file);
    return nlohmann::json::parse(in, nullptr, false);
  }
  /// Writes a model profile with encoders about as expensive as the LLM, so that decoupled plans
  /// are faster.
  std::string write_profile() const {
    CostProfile profile = CostProfile::stated_default();
    for (std::size_t m = 0; m < kModules; ++m) {
      const bool encoder = m != static_cast<std::size_t>(CostModule::kLlm);
      ModuleCoefficients& coefficients = profile.modules.at(m).coefficients;
      coefficients.per_microbatch = encoder ? kEncoderLaunch : 0;
      if (encoder) coefficients.per_unit *= 5;
    }
    const std::filesystem::path file = scratch() / "profile.json";
    std::ofstream(file) << profile.to_json();
    return file.string();
  }
  /// Returns the bytes of each tensor that one rank receives if it reads everything.
  std::map<std::string, std::int64_t> bytes_of_all() {
    std::map<std::string, std::int64_t> bytes;
    NodeOptions whole = options(1);
    whole.plan.microbatches = 1;
    run(whole, [&](std::int64_t, Client&, const Microbatch& microbatch) {
      for (const TensorSpec& spec : microbatch.header.tensors) {
        bytes[spec.name] += static_cast<std::int64_t>(microbatch.find(spec.name)->bytes().size());
      }
    });
    return bytes;
  }

  bool killed_ = false;  ///< The program was killed, so that its files remain.
};

TEST_F(PipelineTrainer, GradientsAreThoseOfOneProcessAndOneBatch) {
  make_dataset(21);  // 16 and a tail of 5, which fills fewer microbatches
  const std::string profile = write_profile();
  for (const std::string degrees : {"--encoder-dp 1 --llm-dp 1", "--encoder-dp 1 --llm-dp 2",
                                    "--encoder-dp 2 --llm-dp 1", "--encoder-dp 2 --llm-dp 2"}) {
    for (const std::string coupled : {"", " --coupled"}) {
      SCOPED_TRACE(degrees + coupled);
      const nlohmann::json outcome = train(
          degrees + coupled + " --steps 2 --microbatches 3 --check-gradient --profile " + profile);
      ASSERT_TRUE(outcome.is_object());
      ASSERT_TRUE(outcome["gradient_relative_error"].is_number());
      EXPECT_LE(outcome["gradient_relative_error"], kTolerance);
      EXPECT_EQ(outcome["samples"],
                (nlohmann::json{{"delivered", 21}, {"lost", 0}, {"duplicated", 0}}));
      const std::int64_t apart = outcome["decoupled_microbatches"];
      const bool differ = degrees.ends_with("1 --llm-dp 2") || degrees.ends_with("2 --llm-dp 1");
      if (!coupled.empty()) {
        EXPECT_EQ(apart, 0);
      } else if (differ) {
        EXPECT_GT(apart, 0);
      }
    }
  }
}

TEST_F(PipelineTrainer, AStageReceivesTheBytesThatItConsumes) {
  make_dataset(32);
  std::map<std::string, std::int64_t> whole = bytes_of_all();
  std::int64_t media = 0;
  for (const auto& [name, bytes] : whole) media += name.starts_with("llm.") ? 0 : bytes;
  ASSERT_GT(media, 0);
  const nlohmann::json outcome =
      train("--encoder-dp 1 --llm-dp 2 --llm-stages 3 --steps 2 --microbatches 2");
  ASSERT_TRUE(outcome.is_object());
  const nlohmann::json& bytes = outcome["bytes"];
  EXPECT_EQ(bytes["encoder"], media);
  EXPECT_EQ(bytes["llm_first"],
            whole["llm.input_ids"] + whole["llm.position_ids"] + whole["llm.lengths"]);
  EXPECT_EQ(bytes["llm_middle"], whole["llm.lengths"]);
  EXPECT_EQ(bytes["llm_last"], whole["llm.labels"] + whole["llm.lengths"]);
  EXPECT_TRUE(outcome["gradient_relative_error"].is_null());
  EXPECT_GT(outcome["routing_bytes"], 0);
  EXPECT_GE(outcome["bubble_fraction"], 0);
  EXPECT_LT(outcome["bubble_fraction"], 1);
}

// Returns the weights of all parts by name.
std::map<std::string, torch::Tensor> weights(const std::filesystem::path& states,
                                             const std::string& step) {
  std::map<std::string, torch::Tensor> all;
  for (const std::string part : {"encoder", "llm-0-of-2", "llm-1-of-2"}) {
    auto tensors = read_tensors(states / (part + ".step-" + step));
    EXPECT_TRUE(tensors.has_value()) << tensors.error().message();
    if (tensors) all.merge(*tensors);
  }
  all.erase("loader");
  return all;
}

TEST_F(PipelineTrainer, AfterAStageDiedTheRemainingSamplesAreTrainedOnOnce) {
  make_dataset(48);
  const std::string job = "--global-batch-size 4 --microbatches 2 --dtype float64 --checkpoint ";
  const std::filesystem::path states = scratch() / "states";
  train(job + (scratch() / "whole").string() + " --steps 12");

  Program program(arguments(job + states.string() + " --steps 12"));
  ASSERT_TRUE(program.read_until("step 2: ")) << program.output();
  const std::string victim = "llm, data 0, stage 1, tensor 0";
  kill(program.process(victim), SIGKILL);
  EXPECT_EQ(program.finish(), 1) << program.output();
  EXPECT_THAT(program.output(),
              HasSubstr(victim + " (process " + std::to_string(program.process(victim)) +
                        ") was killed by signal 9"));
  // The neighbouring stage reports it, too.
  EXPECT_THAT(program.output(), HasSubstr("llm, data 0, stage 0, tensor 0: unavailable: step "));

  int trained = 0;
  {
    Program resumed(arguments(job + states.string() + " --steps 1 --resume"));
    EXPECT_EQ(resumed.finish(), 0) << resumed.output();
    ASSERT_TRUE(resumed.read_until("resumes after step ")) << resumed.output();
    const std::size_t at = resumed.output().find("resumes after step ");
    ASSERT_EQ(std::sscanf(resumed.output().c_str() + at, "resumes after step %d", &trained), 1);
  }
  ++trained;
  ASSERT_GE(trained, 2);
  ASSERT_LT(trained, 12);
  const nlohmann::json outcome =
      train(job + states.string() + " --resume --steps " + std::to_string(12 - trained));
  ASSERT_TRUE(outcome.is_object());
  EXPECT_EQ(outcome["samples"],
            (nlohmann::json{{"delivered", 4 * (12 - trained)}, {"lost", 0}, {"duplicated", 0}}));
  // The weights equal those of a run in which no stage died: every sample was trained on once.
  const auto expected = weights(scratch() / "whole", "12");
  const torch::Tensor json =
      read_tensors(scratch() / "whole" / "encoder.step-12").value().at("loader").contiguous();
  const State state = State::parse({static_cast<const char*>(json.data_ptr()), json.nbytes()});
  EXPECT_EQ(state.step, 12U);
  EXPECT_GT(state.cost_model_state.size(), 1000U);
  const auto found = weights(states, "12");
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    EXPECT_TRUE(torch::allclose(found.at(name), tensor, 1e-9, 1e-12)) << name;
  }
}

TEST_F(PipelineTrainer, RefusesBadOptionsBeforeItTrains) {
  make_dataset(16);
  for (const auto& [wrong, named] :
       {std::pair<std::string, std::string>{"--encoder-dp 9 --llm-dp 2", "--encoder-dp"},
        {"--global-batch-size 1 --llm-dp 2", "--global-batch-size is 1"},
        {"--json /nowhere/x.json", "--json: cannot write"},
        {"--lr nan", "--lr"}}) {
    Program program(arguments("--steps 1 --check-gradient " + wrong));
    EXPECT_NE(program.finish(), 0) << wrong;
    EXPECT_THAT(program.output(), HasSubstr(named));
    EXPECT_THAT(program.output(), Not(HasSubstr("in one process"))) << wrong;
  }
}

TEST_F(PipelineTrainer, GradientsThatAreNotNumbersFail) {
  make_dataset(16);
  Program program(arguments("--steps 2 --global-batch-size 8 --check-gradient --lr 1000000"));
  EXPECT_EQ(program.finish(), 1) << program.output();
  EXPECT_THAT(program.output(), HasSubstr("the gradients differ from those"));
}

TEST_F(PipelineTrainer, StopsWithAllItsProcesses) {
  make_dataset(48);
  for (const int signal : {SIGTERM, SIGKILL}) {
    Program program(arguments("--global-batch-size 2 --microbatches 1 --steps 24"));
    ASSERT_TRUE(program.read_until("step 1: ")) << program.output();
    kill(program.pid(), signal);
    EXPECT_EQ(program.finish(), 128 + signal) << program.output();
    killed_ = signal == SIGKILL;
  }
}

TEST_F(PipelineTrainer, BadUsageEndsWithStatusTwo) {
  make_dataset(16);
  const auto refused = [&](const std::string& more) {
    Program program(arguments(more));
    EXPECT_EQ(program.finish(), 2) << program.output();
    return program.output();
  };
  EXPECT_THAT(refused("--steps 3"), HasSubstr("has 1 step of 16 samples"));
  EXPECT_THAT(refused("--resume"), HasSubstr("--resume needs --checkpoint"));
  EXPECT_THAT(refused("--llm-stages 1"), HasSubstr("--llm-stages"));
  EXPECT_THAT(refused("--check-gradient --dtype float32"), HasSubstr("leave --dtype out"));
  Program help({"--help"});
  EXPECT_EQ(help.finish(), 0);
  EXPECT_THAT(help.output(), HasSubstr("pipeline_trainer --data build/demo/shards"));
}

}  // namespace
}  // namespace isocost
