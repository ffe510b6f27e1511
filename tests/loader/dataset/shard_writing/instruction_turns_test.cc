// Questions with answers, by the names that data sets have for them, as turns of a conversation.
#include "loader/dataset/records/internal/instruction_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "loader/dataset/shard_writing/make_shards.h"
#include "tests/loader/dataset/shard_writing/records_fixture.h"

namespace isocost {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

// Returns the record as it is written, or its error.
std::string written(std::string_view record) {
  Json object = Json::parse(record);
  if (!is_instruction(object)) return "no instruction";
  const auto read = write_turns(object);
  return read ? object.dump() : read.error().message();
}

struct Case {
  const char* record;
  const char* written;
};

class InstructionTurns : public testing::TestWithParam<Case> {};

TEST_P(InstructionTurns, AreWrittenAsMessages) {
  EXPECT_EQ(written(GetParam().record), Json::parse(GetParam().written).dump());
}

#define USER(text) R"({"role": "user", "content": ")" text R"("})"
#define ASSISTANT(text) R"({"role": "assistant", "content": ")" text R"("})"
#define ROUND(question, answer) USER(question) ", " ASSISTANT(answer)

// LLaMA-Factory joins an instruction and its input by a line break, and lets the model learn the
// answers of a history; ms-swift does the same with its names for them.
INSTANTIATE_TEST_SUITE_P(
    Alpaca, InstructionTurns,
    testing::Values(
        Case{R"({"instruction": "a", "input": "b", "output": "c", "source": 1})",
             R"({"source": 1, "messages": [)" ROUND("a\\nb", "c") "]}"},
        Case{R"({"instruction": "a", "input": "", "output": ""})",
             R"({"messages": [)" ROUND("a", "") "]}"},
        Case{R"({"instruction": "a", "input": null, "output": "c"})",
             R"({"input": null, "messages": [)" ROUND("a", "c") "]}"},
        Case{R"({"instruction": "", "input": "b", "output": "c"})",
             R"({"messages": [)" ROUND("b", "c") "]}"},
        Case{
            R"({"instruction": "a", "output": "c", "system": "s", "history": [["q", "r"], ["t", "u"]]})",
            R"({"system": "s", "messages": [)" ROUND("q", "r") ", " ROUND("t", "u") ", " ROUND(
                "a", "c") "]}"},
        Case{R"({"instruction": "a", "context": "b", "response": "c", "category": "open_qa"})",
             R"({"category": "open_qa", "messages": [)" ROUND("a\\nb", "c") "]}"}));

INSTANTIATE_TEST_SUITE_P(
    Names, InstructionTurns,
    testing::Values(
        Case{R"({"query": "a", "response": "b", "system": "s", "history": []})",
             R"({"system": "s", "messages": [)" ROUND("a", "b") "]}"},
        Case{R"({"query": "a", "response": "b", "system_prompt": "s", "history": ""})",
             R"({"system": "s", "messages": [)" ROUND("a", "b") "]}"},
        Case{R"({"question": "a", "answer": "b"})", R"({"messages": [)" ROUND("a", "b") "]}"},
        Case{R"({"prompt": "a", "response": "b"})", R"({"messages": [)" ROUND("a", "b") "]}"},
        Case{R"({"prompt": "a", "completion": "b"})", R"({"messages": [)" ROUND("a", "b") "]}"},
        Case{R"({"input": "a", "output": "b"})", R"({"messages": [)" ROUND("a", "b") "]}"},
        Case{R"({"inputs": "a", "targets": "b"})", R"({"messages": [)" ROUND("a", "b") "]}"},
        Case{R"({"kind": "k", "input": "a", "target": "b"})",
             R"({"kind": "k", "messages": [)" ROUND("a", "b") "]}"},
        Case{R"({"problem": "a", "solution": "b"})", R"({"messages": [)" ROUND("a", "b") "]}"},
        Case{R"({"question": "a", "answers": ["b", "c"]})",
             R"({"answers": ["b", "c"], "messages": [)" ROUND("a", "b") "]}"},
        Case{R"({"question": "a", "answers": ["b"]})", R"({"messages": [)" ROUND("a", "b") "]}"},
        Case{
            R"({"question": "a", "context": "x", "answers": {"text": ["b"], "answer_start": [7]}})",
            R"({"messages": [)" ROUND("a\\nx", "b") "]}"},
        Case{
            R"({"question": "a", "answers": [{"answer": "b", "answer_id": 1}, {"answer": "c"}]})",
            R"({"answers": [{"answer": "b", "answer_id": 1}, {"answer": "c"}], "messages": [)" ROUND(
                "a", "b") "]}"}));

// TRL's prompts and completions may be lists of messages; only the completion has labels.
INSTANTIATE_TEST_SUITE_P(
    ListsOfTurns, InstructionTurns,
    testing::Values(
        Case{R"({"prompt": [)" USER("a") R"(], "completion": [)" ASSISTANT("b") "]}",
             R"({"messages": [)" ROUND("a", "b") "]}"},
        Case{
            R"({"prompt": [)" ROUND("a",
                                    "b") ", " USER("c") R"(], "completion": [)" ASSISTANT("d") "]}",
            R"({"messages": [)" USER(
                "a") R"(, {"role": "assistant", "content": "b", "weight": 0}, )" ROUND("c",
                                                                                       "d") "]}"},
        Case{R"({"prompt": [{"role": "model", "content": "a", "weight": 0.5}], "completion": "b"})",
             R"({"messages": [{"role": "model", "content": "a", "weight": 0.5}, )" ASSISTANT(
                 "b") "]}"},
        Case{R"({"prompt": "a", "completion": [)" ASSISTANT("b") "]}",
             R"({"messages": [)" ROUND("a", "b") "]}"},
        Case{R"({"query": "a", "response": "b", "history": [)" ROUND("q", "r") "]}",
             R"({"messages": [)" ROUND("q", "r") ", " ROUND("a", "b") "]}"},
        Case{R"({"conversation": [)" ROUND("a", "b") R"(], "turn": 1})",
             R"({"turn": 1, "messages": [)" ROUND("a", "b") "]}"},
        Case{
            R"({"system": "s", "conversation": [{"human": "a", "assistant": "b"}, {"human": "c", "assistant": "d"}]})",
            R"({"system": "s", "messages": [)" ROUND("a", "b") ", " ROUND("c", "d") "]}"}));

// TRL and ms-swift put media that no text names before the first turn of the user.
INSTANTIATE_TEST_SUITE_P(
    Media, InstructionTurns,
    testing::Values(
        Case{R"({"instruction": "<image>What?", "input": "", "output": "A", "images": ["a.jpg"]})",
             R"({"images": ["a.jpg"], "messages": [)" ROUND("<image>What?", "A") "]}"},
        Case{
            R"({"query": "What?", "response": "A", "images": ["a.jpg", "b.png"], "audio": "s.wav"})",
            R"({"images": ["a.jpg", "b.png"], "audio": "s.wav", "messages": [)" ROUND(
                "<image><image><audio>What?", "A") "]}"},
        Case{R"({"image": "a.jpg", "question": "What?", "answer": "A", "history": [["q", "r"]]})",
             R"({"image": "a.jpg", "messages": [)" ROUND("<image>q", "r") ", " ROUND("What?",
                                                                                     "A") "]}"},
        Case{R"({"file_name": "x/v.mp4", "question": "What?", "answer": "A"})",
             R"({"video": "x/v.mp4", "messages": [)" ROUND("<video>What?", "A") "]}"},
        Case{
            R"({"images": ["a.jpg"], "prompt": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a"}]}], "completion": "b"})",
            R"({"images": ["a.jpg"], "messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a"}]}, )" ASSISTANT(
                "b") "]}"},
        Case{
            R"({"images": ["a.jpg"], "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "a"}]}], "completion": "b"})",
            R"({"images": ["a.jpg"], "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a"}]}, )" ASSISTANT(
                "b") "]}"},
        Case{R"({"image": "", "question": "What?", "answer": "A"})",
             R"({"image": "", "messages": [)" ROUND("What?", "A") "]}"}));

class BadInstruction : public testing::TestWithParam<Case> {};

TEST_P(BadInstruction, IsNamed) {
  EXPECT_THAT(written(GetParam().record), HasSubstr(GetParam().written));
}

INSTANTIATE_TEST_SUITE_P(
    Reasons, BadInstruction,
    testing::Values(
        Case{R"({"prompt": "a", "chosen": "b", "rejected": "c"})",
             "is preference data ('chosen' and 'rejected'), which no recipe trains on"},
        Case{R"({"instruction": "a", "input": "", "chosen": "b", "rejected": "c"})",
             "is preference data"},
        Case{R"({"chosen": [], "rejected": []})", "is preference data"},
        Case{R"({"prompt": "a", "completion": "b", "label": false})",
             "'label' says whether the answer is good"},
        Case{R"({"instruction": "a", "output": "b", "kto_tag": true})",
             "'kto_tag' says whether the answer is good"},
        Case{R"({"question": "a", "prompt": "b", "answer": "c"})",
             "has the question in 'question' and in 'prompt': keep one of them"},
        Case{R"({"question": "a", "solution": "b", "answer": "c"})",
             "has the answer in 'answer' and in 'solution'"},
        Case{R"({"question": 5, "answer": "c"})", "'question' is a number: a text is needed"},
        Case{R"({"question": "a", "context": ["b"], "answer": "c"})",
             "'context' is a list: a text"},
        Case{R"({"question": "a", "answer": 7})", "'answer' is a number: a text is needed"},
        Case{R"({"question": "a", "answers": []})", "'answers' is an empty list"},
        Case{R"({"question": "a", "answer": {"value": "b"}})", "'answer' is an object"},
        Case{R"({"prompt": [{"role": "user", "content": "a"}], "input": "b", "completion": "c"})",
             "has 'input' beside a list of turns in 'prompt'"},
        Case{R"({"query": "a", "response": "b", "history": "[['q', 'r']]"})",
             "'history' is a string: a list of rounds or turns is needed"},
        Case{R"({"query": "a", "response": "b", "history": [["q"]]})", "an entry of 'history'"},
        Case{R"({"query": "a", "response": "b", "history": [["q", null]]})",
             "an entry of 'history'"},
        Case{R"({"conversation": [{"human": "a", "narrator": "b"}]})",
             "'conversation' has the role 'narrator', which is none of system"},
        Case{R"({"file_name": "a.jpg", "image": "b.jpg", "question": "a", "answer": "b"})",
             "in 'file_name' and beside it"},
        Case{R"({"file_name": "a", "question": "a", "answer": "b"})", "not the extension"},
        Case{R"({"file_name": "a.jpg", "text": "x"})", "no instruction"},
        Case{R"({"image": "a.jpg", "prompt": "x", "text": "y"})", "no instruction"},
        Case{R"({"instruction": "a", "output": null})", "no instruction"}));

class InstructionRecords : public RecordsFixture {};

TEST_F(InstructionRecords, BecomeConversations) {
  for (
      const char* record :
      {R"([{"instruction": "<image>What?", "input": "", "output": "A", "images": ["images/a.jpg"]}])",
       R"([{"query": "<image>What?", "response": "A", "images": ["images/a.jpg"]}])"}) {
    options_.force = true;
    const auto made = make(record, "data.json");
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_EQ(
        members(),
        (Members{
            {"000000001.000.jpg", jpeg_},
            {"000000001.json",
             R"({"images":["images/a.jpg"],"messages":[{"role":"user","content":"<image>What?"},)"
             R"({"role":"assistant","content":"A"}]})"}}));
    EXPECT_THAT(unread(*made), ElementsAre());
  }
}

TEST_F(InstructionRecords, SayWhatTheyAreWhereTheConversationIsRefused) {
  EXPECT_THAT(
      make(R"({"id": "k", "question": "a", "answer": "<image>", "image": "b.png"})")
          .error()
          .message(),
      HasSubstr(
          "data.jsonl:1: k: written as messages: turn 2: the assistant's text names a medium"));
  EXPECT_THAT(
      make(R"({"question": "<image><image>", "answer": "a", "image": "b.png"})").error().message(),
      HasSubstr("2 <image> placeholders (turn 1) for 1 image file"));
}

TEST_F(InstructionRecords, AConversationOfPreferenceDataIsNamed) {
  const std::string turns = R"({"conversations": [{"from": "human", "value": "a"}], )";
  EXPECT_THAT(
      make(turns +
           R"("chosen": {"from": "gpt", "value": "b"}, "rejected": {"from": "gpt", "value": "c"}})")
          .error()
          .message(),
      HasSubstr("is preference data ('chosen' and 'rejected')"));
}

TEST_F(InstructionRecords, SeveralAnswersAndConversationsWithoutAnyAreCounted) {
  std::vector<std::string> said;
  options_.log = [&](LogLevel, std::string_view line) { said.emplace_back(line); };
  ASSERT_TRUE(make(
      R"({"question": "a", "answers": ["b", "c"]})"
      "\n"
      R"({"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "user", "content": "b"}]})"));
  EXPECT_THAT(said, ElementsAre("1 record had several answers, of which the first was taken",
                                "1 conversation without a turn of the assistant: tokenize takes "
                                "them with --labels all"));
}

}  // namespace
}  // namespace isocost
