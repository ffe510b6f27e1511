"""Samples' texts as conversations."""

import ast
import json
import pathlib
import subprocess
import tarfile
import tempfile
import unittest

from isocost.tokens.conversation import MEDIA, ConversationOptions, check_options, conversation
from support import PROGRAM, main

OPTIONS = ConversationOptions(placeholders={"image": "<|image_pad|>", "video": "<|video_pad|>"})
ANSWER = {"role": "assistant", "content": "yes"}


def encode(document):
    return json.dumps(document).encode()


def read(document, media=(), texts=(), options=OPTIONS):
    return conversation("shard/key", None if document is None else encode(document), list(texts), list(media), options)


def llava(*turns):
    return {"conversations": [{"from": speaker, "value": value} for speaker, value in turns]}


def error_of(case):
    """Reads a case of the table. Returns the error's message and the line that raised it; None if there is none."""
    try:
        found = read(case["record"], [modality for modality, _file in case.get("media", [])])
    except ValueError as error:
        at = error.__traceback__
        while at.tb_next is not None:
            at = at.tb_next
        return str(error), at.tb_lineno
    contents = [message.get("content") for message in found.messages]
    kinds = [part["type"] for content in contents if isinstance(content, list) for part in content]
    if "roles" in case:
        assert [message["role"] for message in found.messages] == case["roles"], found.messages
    if "weights" in case:
        weights = found.weights or [1.0] * sum(message["role"] == "assistant" for message in found.messages)
        assert weights == case["weights"], weights
    assert [kind for kind in kinds if kind in MEDIA] == [modality for modality, _file in case.get("media", [])], kinds
    return None


def spelled(name, role, content, turns):
    return {name: [{role: speaker, content: text} for speaker, text in turns]}


def openai(*contents, **more):
    turns = [{"role": ("user", "assistant")[i % 2], "content": content} for i, content in enumerate(contents)]
    return {"messages": turns, **more}


class SharedCases(unittest.TestCase):
    """tests/conversations.json holds what make-shards must read, too."""

    # Functions some of whose errors depend on more than a record, or on bytes that are no JSON.
    OTHERS = ("check_options", "conversation", "read_document", "_weights")

    @classmethod
    def setUpClass(cls):
        table = pathlib.Path(__file__).parent.parent / "conversations.json"
        cls.cases = json.loads(table.read_text(encoding="utf-8"))["cases"]

    def test_each_is_read_as_the_table_says(self):
        for case in self.cases:
            with self.subTest(case["name"]):
                found = error_of(case)
                if "tokenize" in case:
                    self.assertIsNotNone(found)
                    self.assertIn(case["tokenize"], found[0])
                else:
                    self.assertIsNone(found)

    def test_each_error_has_a_case(self):
        raised = {found[1] for found in map(error_of, self.cases) if found is not None}
        source = pathlib.Path(conversation.__code__.co_filename).read_text(encoding="utf-8")
        for function in ast.parse(source).body:
            if not isinstance(function, ast.FunctionDef) or function.name in self.OTHERS:
                continue
            for error in (node for node in ast.walk(function) if isinstance(node, ast.Raise)):
                lines = range(error.lineno, error.end_lineno + 1)
                self.assertTrue(raised.intersection(lines), f"{function.name}, line {error.lineno}")


class WrittenRecords(unittest.TestCase):
    """Records of other trainers, as make-shards writes them and the tokenizer reads them then."""

    ROUND = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]

    def read_back(self, *records):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory, "records.jsonl")
            file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
            subprocess.run([PROGRAM, "make-shards", file, directory + "/shards"], check=True, capture_output=True)
            with tarfile.open(directory + "/shards/shard-000000.tar") as shard:
                parts = [shard.extractfile(member).read() for member in shard]
        return [conversation("key", part, [], [], OPTIONS) for part in parts]

    def test_messages_are_those_of_the_trainers(self):
        found = self.read_back({"instruction": "a", "input": "x", "output": "b", "history": [["a", "b"]]},
                               {"query": "a", "response": "b", "system": "s"},
                               {"question": "a", "answers": ["b", "c"]},
                               {"conversation": [{"human": "a", "assistant": "b"}]},
                               {"prompt": "a", "completion": "b"})
        self.assertEqual([each.messages for each in found],
                         [[*self.ROUND, {"role": "user", "content": "a\nx"}, self.ROUND[1]],
                          [{"role": "system", "content": "s"}, *self.ROUND], self.ROUND, self.ROUND, self.ROUND])

    def test_a_prompt_that_weighs_its_turns_keeps_its_weights(self):
        for weight in ({"loss": True}, {"train": 1}, {"loss_weight": 1.0}, {"weight": 1}):
            turns = {"prompt": [self.ROUND[0], {**self.ROUND[1], **weight}, self.ROUND[0]],
                     "completion": [self.ROUND[1]]}
            found, = self.read_back(turns)
            self.assertEqual(found.weights, [], weight)

    def test_the_completion_alone_is_learnt(self):
        turns = {"prompt": [*self.ROUND, self.ROUND[0]], "completion": [self.ROUND[1]]}
        found, = self.read_back(turns)
        self.assertEqual((found.messages, found.weights), ([*self.ROUND, *self.ROUND], [0, 1]))


class Forms(unittest.TestCase):
    def test_typed_parts_stay_as_they_are(self):
        parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "image", "image": "x.jpg"}]
        found = read(openai(parts, "c"), ["image"])
        self.assertEqual(found.messages, [{"role": "user", "content": parts}, {"role": "assistant", "content": "c"}])
        self.assertEqual((found.key, found.tools, found.media),
                         ("shard/key", None, {"image": 1, "video": 0, "audio": 0}))

    def test_parts_with_addresses_become_media(self):
        parts = [{"type": "image_url", "image_url": {"url": "a"}}, {"type": "video_url", "video_url": "b"},
                 {"type": "input_audio", "input_audio": {"data": "c"}}]
        found = read(openai(parts, "c"), ["image", "video", "audio"])
        self.assertEqual(found.messages[0]["content"], [{"type": "image", "url": "a"}, {"type": "video", "url": "b"},
                                                        {"type": "audio", "url": ""}])

    def test_parts_as_openai_takes_and_answers_them(self):
        parts = [{"type": "input_image", "image_url": "a"}, {"type": "input_text", "text": "What?"}]
        found = read(openai(parts, [{"type": "output_text", "text": "A cat."}]), ["image"])
        self.assertEqual([message["content"] for message in found.messages],
                         [[{"type": "image", "url": "a"}, {"type": "text", "text": "What?"}],
                          [{"type": "text", "text": "A cat."}]])

    def test_a_list_that_is_null_is_none(self):
        for document in ({"messages": None, **llava(("human", "a"), ("gpt", "b"))},
                         {"conversations": None, **openai("a", "b")}):
            self.assertEqual([message["content"] for message in read(document).messages], ["a", "b"])

    def test_parts_without_a_type_tell_it_by_their_key(self):
        parts = [{"image": "a.jpg", "text": None}, {"text": "What?", "type": None}, "Say."]
        found = read(openai(parts, "c"), ["image"])
        self.assertEqual(found.messages[0]["content"], [{"type": "image", "image": "a.jpg"},
                                                        {"type": "text", "text": "What?"},
                                                        {"type": "text", "text": "Say."}])

    def test_columns_without_a_value_leave_a_part(self):
        # Templates of transformers ask `'image' in part`, and would see a medium in each of these texts.
        parts = [{"type": "image", "image": "a.jpg", "text": None},
                 {"type": "text", "text": "hi", "image": None, "video": "", "image_url": {"url": None},
                  "audio": [None]}]
        found = read(openai(parts, [{"type": "text", "text": "yo", "image": None}]), ["image"])
        self.assertEqual([message["content"] for message in found.messages],
                         [[{"type": "image", "image": "a.jpg"}, {"type": "text", "text": "hi"}],
                          [{"type": "text", "text": "yo"}]])

    def test_llava_placeholders_become_media_and_the_rest_is_kept(self):
        found = read(llava(("system", "s"), ("human", "<image>\nWhat <video> is it? "), ("gpt", "A cat.")),
                     ["video", "image"])
        self.assertEqual(found.messages, [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "\nWhat "}, {"type": "video"},
                                         {"type": "text", "text": " is it? "}]},
            {"role": "assistant", "content": "A cat."}])

    def test_placeholders_in_messages_count_where_no_part_is_typed(self):
        found = read(openai("<image>What?", "A cat."), ["image"])
        self.assertEqual(found.messages[0]["content"], [{"type": "image"}, {"type": "text", "text": "What?"}])
        typed = [{"type": "image"}, {"type": "text", "text": "Is <image> a tag?"}]
        found = read(openai(typed, "<image> is."), ["image"])
        self.assertEqual(found.messages[1]["content"], "<image> is.")
        self.assertEqual(read(openai("What is <image>?", "A tag.")).messages[0]["content"], "What is <image>?")

    def test_placeholders_in_text_parts_count_where_no_part_is_typed(self):
        parts = [{"type": "text", "text": "<image>What?"}, {"type": "text", "text": "Say."}]
        split = [{"type": "image"}, {"type": "text", "text": "What?"}, {"type": "text", "text": "Say."}]
        self.assertEqual(read(openai(parts, "A cat."), ["image"]).messages[0]["content"], split)
        self.assertEqual(read(openai(parts, "A cat.")).messages[0]["content"], parts)
        self.assertEqual(read(llava(("human", parts), ("gpt", "A cat.")), ["image"]).messages[0]["content"], split)
        typed = [{"type": "image"}, {"type": "text", "text": "Is <image> a tag?"}]
        self.assertEqual(read(llava(("human", typed), ("gpt", "<image> is.")), ["image"]).messages,
                         [{"role": "user", "content": typed}, {"role": "assistant", "content": "<image> is."}])

    def test_both_lists_may_have_either_spelling(self):
        turns = [("system", "s"), ("user", "<image>What?"), ("assistant", "A cat.")]
        of_sharegpt = {"user": "human", "assistant": "gpt"}
        expected = read(spelled("messages", "role", "content", turns), ["image"]).messages
        self.assertEqual(expected[1:], [{"role": "user", "content": [{"type": "image"},
                                                                     {"type": "text", "text": "What?"}]},
                                        {"role": "assistant", "content": "A cat."}])
        for name in ("messages", "conversations"):
            for role in ("role", "from"):
                for content in ("content", "value"):
                    for speakers in ({}, of_sharegpt):
                        given = [(speakers.get(who, who), text) for who, text in turns]
                        found = read(spelled(name, role, content, given), ["image"])
                        self.assertEqual(found.messages, expected, (name, role, content, given))

    def test_speakers_of_sharegpt(self):
        for speaker, role in (("chatgpt", "assistant"), ("bing", "assistant"), ("bard", "assistant"),
                              ("tool", "tool"), ("observation", "tool"), ("function_call", "assistant")):
            found = read(llava(("human", "a"), (speaker, "b"), ("gpt", "c")))
            self.assertEqual(found.messages[1], {"role": role, "content": "b"})

    def test_calls_of_sharegpt(self):
        call = {"name": "f", "arguments": {"x": 1}}
        wrapped = {"type": "function", "function": call}
        for text, calls in ((json.dumps(call), [wrapped]), (json.dumps([call, call]), [wrapped, wrapped])):
            found = read(llava(("human", "a"), ("function_call", text), ("observation", "7"), ("gpt", "c")))
            self.assertEqual(found.messages[1:3], [{"role": "assistant", "tool_calls": calls},
                                                   {"role": "tool", "content": "7"}])
        for text in ("f(1)", "[]", "7", "[" * 100000, '{"name": "f"}', '{"arguments": {}}', json.dumps([call, 1])):
            found = read(llava(("human", "a"), ("function_call", text)))
            self.assertEqual(found.messages[1], {"role": "assistant", "content": text})
        self.assertEqual(read(llava(("human", "a"), ("gpt", json.dumps(call)))).messages[1]["content"],
                         json.dumps(call), "only a function_call is one")

    def test_tools_as_a_string(self):
        tool = {"name": "f", "description": "d", "parameters": {}}
        wrapped = {"type": "function", "function": tool}
        for given, expected in ((json.dumps([tool]), [wrapped]), (json.dumps([wrapped]), [wrapped]), ("[]", []),
                                ("", None), ([tool], [tool])):
            self.assertEqual(read(openai("a", "b", tools=given)).tools, expected)

    def test_a_system_beside_the_turns_is_the_first_of_them(self):
        found = read({**llava(("human", "a"), ("gpt", "b")), "system": "s"})
        self.assertEqual(found.messages[0], {"role": "system", "content": "s"})
        self.assertEqual([message["role"] for message in found.messages], ["system", "user", "assistant"])
        for beside in ({"system": ""}, {"system": None}, {}):
            self.assertEqual(len(read({**llava(("human", "a"), ("gpt", "b")), **beside}).messages), 2)
        same = read({**llava(("system", "s"), ("human", "a"), ("gpt", "b")), "system": "s"})
        self.assertEqual(len(same.messages), 3)
        document = openai("a", "b", system="s")
        document["messages"][1]["weight"] = 0.5
        self.assertEqual(read(document).weights, [0.5])

    def test_tools_and_their_turns(self):
        call = {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
        tools = [{"type": "function", "function": {"name": "f"}}]
        turns = [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                 {"role": "tool", "content": "7"}, ANSWER]
        found = read({"messages": turns, "tools": tools})
        self.assertEqual(found.tools, tools)
        self.assertEqual(found.messages[1], {"role": "assistant", "tool_calls": [call]})

    def test_reasoning_has_the_names_that_templates_read(self):
        found = read({"messages": [{"role": "user", "content": "a"}, {**ANSWER, "reasoning": "hm"}]})
        self.assertEqual((found.messages[1]["thinking"], found.messages[1]["reasoning_content"]), ("hm", "hm"))

    def test_captions(self):
        found = read(None, ["image", "audio"], ["a cat"])
        self.assertEqual(found.messages, [{"role": "user", "content": [{"type": "image"}, {"type": "audio"}]},
                                          {"role": "assistant", "content": "a cat"}])
        options = OPTIONS._replace(caption_template="Look: <media> What is it?")
        found = read({"width": 3}, ["image"], ["a", "b"], options)
        self.assertEqual(found.messages, [
            {"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image"},
                                         {"type": "text", "text": " What is it?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])
        self.assertEqual(read(None, [], ["text"]).messages[0], {"role": "user", "content": ""})

    def test_parts_keep_what_a_template_may_read(self):
        found = read(openai([{"type": "image_url", "image_url": {"url": "a"}, "text": None, "max_pixels": 784}], "c"),
                     ["image"])
        self.assertEqual(found.messages[0]["content"], [{"type": "image", "url": "a", "max_pixels": 784}])

    def test_thoughts_in_parts_have_one_form(self):
        answer = {"type": "text", "text": "b"}
        for part in ({"type": "thinking", "thinking": "hm"}, {"type": "thinking", "text": "hm", "thinking": None},
                     {"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]}):
            found = read(openai("a", [part, answer]))
            self.assertEqual(found.messages[1]["content"], [{"type": "thinking", "thinking": "hm"}, answer])

    def test_arguments_of_calls_are_objects(self):
        def arguments(given, **more):
            call = {"id": None, "type": "function", "function": {"name": "f", "arguments": given, **more}}
            found = read({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [call]}]})
            (read_call,) = found.messages[1]["tool_calls"]
            self.assertNotIn("id", read_call)
            return read_call["function"]["arguments"]

        for given, wanted in (('{"a": {"b": null}, "c": [1]}', {"a": {"b": None}, "c": [1]}), ("", {}),
                              ({"a": 1, "b": None, "c": {"d": None, "e": [None]}}, {"a": 1, "c": {"e": [None]}}),
                              # A value that is no object stays as it is.
                              ("print(1)", "print(1)"), ("[1]", "[1]"), ([1], [1])):
            self.assertEqual(arguments(given), wanted)
        shared = {"name": "f", "arguments": {"a": None}}
        document = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [shared]}]}
        self.assertEqual(read(document).messages[1]["tool_calls"], [{"name": "f", "arguments": {}}])
        text = json.dumps({"name": "f", "arguments": json.dumps({"a": 1})})
        found = read(llava(("human", "a"), ("function_call", text), ("observation", "7"), ("gpt", "b")))
        self.assertEqual(found.messages[1]["tool_calls"][0]["function"]["arguments"], {"a": 1})

    def test_deep_calls_are_an_error(self):
        deep = '[' * 400 + ']' * 400
        text = ('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": '
                '[{"name": "f", "arguments": {"a": ' + '{"a":' * 600 + deep + '}' * 600 + '}}]}]}')
        with self.assertRaisesRegex(ValueError, "nested too deeply"):
            conversation("key", text.encode(), [], [], OPTIONS)

    def test_a_switch_of_another_turn_has_no_effect_and_is_told(self):
        turns = [{"role": "user", "content": "a", "train": True}, {**ANSWER, "train": True}]
        self.assertEqual((read({"messages": turns}).weights, read({"messages": turns}).without_effect),
                         ([], [("user", "train")]))
        everything = read({"messages": turns}, options=OPTIONS._replace(labels="all"))
        self.assertEqual(everything.without_effect, [])
        turns[0]["train"] = False
        self.assertEqual(read({"messages": turns}).without_effect, [])

    def test_weights_of_turns(self):
        turns = [{"role": "user", "content": "a", "weight": 0}, {**ANSWER, "weight": 0.1}, {**ANSWER, "weight": None},
                 {**ANSWER, "weight": 0}, {**ANSWER, "weight": 1e-60}]
        found = read({"messages": turns})
        self.assertEqual(found.weights, [0.10000000149011612, 1, 0, 0])  # The values are those of float32.
        self.assertTrue(all("weight" not in message for message in found.messages), "a template could see it")
        same = {"conversations": [{"from": "gpt" if turn["role"] == "assistant" else "human", "value": turn["content"],
                                   "weight": turn.get("weight")} for turn in turns]}
        self.assertEqual(read(same).weights, found.weights)
        self.assertEqual(read({"messages": [turns[0], {**ANSWER, "weight": 1}, ANSWER]}).weights, [])

    def test_json_may_have_a_byte_order_mark(self):
        raw = b"\xef\xbb\xbf" + encode(openai("a", "b"))
        self.assertEqual(len(conversation("k", raw, [], [], OPTIONS).messages), 2)

    def test_deep_values_are_no_matter(self):
        deep = []
        for _level in range(400):
            deep = [deep]
        self.assertEqual(len(read(openai("a", "b", tools=[{"x": deep}])).messages), 2)


class BadSamples(unittest.TestCase):
    def check(self, pattern, document, media=(), texts=(), options=OPTIONS):
        with self.assertRaisesRegex(ValueError, pattern):
            read(document, media, texts, options)

    def test_json_that_is_no_object(self):
        self.check("is a list, and no object", [])
        for raw, pattern in ((b"{", "cannot be read"), (b"\xff{}", "cannot be read"), (b"[" * 100000, "too deeply"),
                             (b"null", "is nothing, and no object"), (b"true", "is a boolean"), (b"1", "a number")):
            with self.assertRaisesRegex(ValueError, pattern):
                conversation("k", raw, [], [], OPTIONS)

    def test_nothing_to_read(self):
        self.check("neither a JSON part nor a text", None)
        self.check("neither 'messages' nor 'conversations'", {"caption": "x"})
        self.check("a text of the sample is empty", None, ["image"], [""])
        self.check("a text of the sample is empty", None, ["image"], ["a", ""])

    def test_roles(self):
        self.check("turn 2: role 'narrator' is none of system,", {"messages": [
            {"role": "user", "content": "a"}, {"role": "narrator", "content": "b"}]})
        self.check("turn 1: role None", {"messages": [{"content": "a"}]})
        self.check(r"turn 1: role \['user'\]", {"messages": [{"role": ["user"], "content": "a"}]})
        self.check("turn 1: role 'narrator' is none of system,", llava(("narrator", "a")))
        self.check("turn 1: role {}", llava(({}, "a")))

    def test_parts(self):
        self.check("turn 1, part 2: type 'smell' is none of text, image,",
                   openai([{"type": "text", "text": "a"}, {"type": "smell"}], "b"))
        self.check("turn 1, part 1: type None", openai([{"index": 0}], "b"))
        self.check(r"turn 1, part 1: type \[\]", openai([{"type": []}], "b"))
        self.check("turn 1, part 1 is a number, and no object", openai([1], "b"))
        self.check("turn 1, part 1: 'text' is a number, and no string", openai([{"type": "text", "text": 1}], "b"))

    def test_contents(self):
        self.check("turn 1: content is a number, and neither a string nor a list", openai(1, "b"))
        self.check("turn 2: content is an object", openai("a", {"text": "b"}))
        self.check("turn 1 has no content", openai(None, "b"))
        self.check("turn 1 has no content", llava(("human", None)))
        self.check("turn 1: content is a number, and neither a string nor a list", llava(("human", 1)))
        self.check("turn 1 is a string, and no object", {"messages": ["a"]})
        self.check("'messages' is a string, and no list", {"messages": "a"})
        self.check("'conversations' is an object, and no list", {"conversations": {}})
        self.check("'tools' is a string that is no JSON", openai("a", "b", tools="f(x)"))
        self.check("'tools' is a string that is no JSON", openai("a", "b", tools="[" * 100000))
        self.check("'tools' is an object, and no list of objects", openai("a", "b", tools='{"name": "f"}'))
        self.check("'tools' is a list, and no list of objects", openai("a", "b", tools='["f"]'))
        self.check("'tools' is an object, and no list of objects", openai("a", "b", tools={}))
        self.check("'system' is a list, and no string", openai("a", "b", system=["s"]))
        self.check("a 'system' beside its conversation, and turn 1 is another",
                   {**llava(("system", "s"), ("human", "a"), ("gpt", "b")), "system": "t"})
        self.check("'tools' is a list, and no list of objects", openai("a", "b", tools=["f"]))

    def test_empty_conversations(self):
        self.check("empty: 'messages' has no turn", {"messages": []})
        self.check("empty: 'conversations' has no turn", {"conversations": []})

    def test_numbers_of_media(self):
        self.check("has 2 image placeholders, and the sample has 1 image part",
                   llava(("human", "<image><image>"), ("gpt", "a")), ["image"])
        self.check("has 0 image placeholders, and the sample has 1 image part", openai("a", "b"), ["image"])
        self.check("has 1 video placeholder, and the sample has 0 video parts",
                   openai([{"type": "video"}], "b"), ["audio"])

    def test_placeholders_in_texts_of_the_assistant(self):
        for document in (llava(("human", "a"), ("gpt", "<image> here")), openai("a", "<image> here"),
                         llava(("human", "a"), ("gpt", [{"type": "text", "text": "<image> here"}]))):
            self.check("turn 2: the assistant's text names a medium by its placeholder", document, ["image"])

    def test_placeholders_in_texts(self):
        for document in (openai("see <|image_pad|>", "b"), llava(("human", "a"), ("gpt", "a <|image_pad|>")),
                         openai([{"type": "text", "text": "<|image_pad|>"}], "b")):
            self.check(r"turn [12]: a text contains <\|image_pad\|>, the model's placeholder for image", document)
        self.check(r"'tools': a text contains <\|video_pad\|>", openai("a", "b", tools=[{"x": "<|video_pad|>"}]))
        self.check(r"'system': a text contains <\|video_pad\|>", openai("a", "b", system="<|video_pad|>"))
        self.check(r"turn 1: a text contains <\|video_pad\|>", openai("<|video_pad|>", "b", system="s"))
        self.check(r"turn 2: a text contains <\|video_pad\|>", None, texts=["a <|video_pad|>"])

    def test_weights_of_turns(self):
        for weight, pattern in ((-1, "is -1: it must be a finite number of at least 0"), ("1", "is a string, and no n"),
                                (True, "is a boolean, and no number"), ([1], "is a list, and no number"),
                                (float("nan"), "is nan: it must"), (float("inf"), "is inf: it must"),
                                (1e39, "is 1e\\+39: it must"), (10**400, "is 1000+: it must")):
            for where in (0, 1):
                document = openai("a", "b")
                document["messages"][where]["weight"] = weight
                self.check(f"turn {where + 1}: 'weight' {pattern}", document)
        document = llava(("human", "a"), ("gpt", "b"))
        document["conversations"][1]["weight"] = -0.5
        self.check("turn 2: 'weight' is -0.5", document)
        document = openai("a", "b")
        document["messages"][0]["weight"] = 0
        self.check("turn 1: 'weight' is 0 in a turn of the user, and with --labels all only turns of the assistant",
                   document, options=OPTIONS._replace(labels="all"))
        self.assertEqual(read(document).weights, [])

    def test_labels_need_an_assistant(self):
        self.check("no assistant turn", openai("a"))
        self.assertEqual(len(read(openai("a"), options=OPTIONS._replace(labels="all")).messages), 1)

    def test_options(self):
        with self.assertRaisesRegex(ValueError, "labels = 'some': must be one of assistant, all, last"):
            check_options(ConversationOptions("some"))
        for template in ("Describe", "<media><media>"):
            with self.assertRaisesRegex(ValueError, "write <media> once"):
                check_options(ConversationOptions(caption_template=template))


if __name__ == "__main__":
    main()
