"""Conversations as token ids, compared with transformers if it is installed."""

import importlib.util
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import tempfile
import unittest
import unittest.mock

os.environ["HF_HUB_OFFLINE"] = "1"

from isocost.tokens.chat_template import ChatTemplate, TemplateFile  # noqa: E402
from isocost.tokens.conversation import Conversation  # noqa: E402
from isocost.tokens.model_tokenizer import ModelTokenizer  # noqa: E402
from isocost.tokens.transcript_tokenizer import Transcript, TranscriptTokenizer  # noqa: E402
from isocost.tokens.whisper_languages import LANGUAGES, language_code  # noqa: E402
from support import main  # noqa: E402

NEEDED = ("tokenizers", "jinja2")
HAS_NEEDED = all(map(importlib.util.find_spec, NEEDED))
WHY_NEEDED = "tokenizers or jinja2 is not installed: ./run test --torch2 has them"
HAS_TRANSFORMERS = HAS_NEEDED and importlib.util.find_spec("transformers") is not None
WHY_TRANSFORMERS = "transformers is not installed: ./run test --torch2 has it"
HAS_PROCESSORS = HAS_TRANSFORMERS and all(map(importlib.util.find_spec, ("torch", "torchvision", "PIL")))

if HAS_NEEDED:
    import model_directories as models

RANDOM_CONVERSATIONS = 600
RANDOM_TRANSCRIPTS = 3000
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Früh & <spät>", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}]
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Köln"}}}
TEXTS = ["What is it?", "", " ", "\n", "a\r\nb\r\n", "  two  spaces  ", "naïve café", "e\u0301a\u0308 decomposed",
         "你好，世界", "😀👩‍👩‍👧‍👦🇩🇪", "مرحبا", "x = [1, 2]\n\tif x:\n", "<|im_end|>",
         "<|im_start|>assistant\nno", "<|im_start|>",
         "<image>", "</s>", "{{ 7 * 7 }}", "{% raw %}", "1234567890", "\u200b\ufeff", "\x00\x07",
         "a<|endoftext|>b", "'s 'T", "<think>\nhm\n</think>\n\nso"]

# Marks neither turns nor the prompt for one: [INST] of the Mistral family.
INSTRUCT = ("{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
            "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}")
# Takes only lists of parts, and ends no turn with a special token, as LLaVA 1.5.
PARTS_ALONE = ("{% for m in messages %}{{ m.role.upper() + ': ' }}"
               "{% for p in m.content | selectattr('type', 'equalto', 'image') %}<|image_pad|>\n{% endfor %}"
               "{% for p in m.content | selectattr('type', 'equalto', 'text') %}{{ p.text + ' ' }}{% endfor %}"
               "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}")
# Writes thoughts that are parts of the content.
THINKING_PARTS = ("{% for m in messages %}<|im_start|>{{ m.role + '\n' }}{% if m.content is string %}{{ m.content }}"
                  "{% else %}{% for p in m.content %}{{ '[' ~ p.thinking ~ ']' if p.type == 'thinking' else p.text }}"
                  "{% endfor %}{% endif %}<|im_end|>{{ '\n' }}{% endfor %}{% if add_generation_prompt %}"
                  "{{ '<|im_start|>assistant\n' }}{% endif %}")
# Writes thoughts only for the last turn, as reasoning models do, and no part of them in the generation prompt.
THINKING = ("{% for m in messages %}<|im_start|>{{ m.role + '\n' }}{% if loop.last and m.role == 'assistant' %}<think>"
            "\n\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
# Gives each of the assistant's turns but the last a number, which no generation prompt has.
NUMBERED = ("{% for m in messages %}{% set number = '' if loop.last or m.role == 'user' else ' ' ~ loop.index %}"
            "{{ '<|im_start|>' + m.role + number + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def parts(*contents):
    return [{"type": "text", "text": one} if one not in ("image", "video") else {"type": one} for one in contents]


def encode(document):
    return json.dumps(document).encode()


def media_of(messages):
    return [part["type"] for message in messages if isinstance(message.get("content"), list)
            for part in message["content"] if part["type"] != "text"]


def random_text(source):
    pieces = source.choices(TEXTS, k=source.randint(0, 3))
    pieces += ["".join(chr(source.choice((source.randrange(32, 127), source.randrange(160, 0x800),
                                           source.randrange(0x4e00, 0x9fff), source.randrange(0x1f300, 0x1f700))))
                       for _letter in range(source.randint(0, 30)))]
    source.shuffle(pieces)
    return "".join(pieces)


def random_conversation(source, with_media=True, with_tools=True):
    """(messages, tools)"""
    messages = [{"role": "system", "content": random_text(source)}] if source.random() < 0.4 else []
    tools = TOOLS if with_tools and source.random() < 0.3 else None
    for _turn in range(source.randint(1, 5)):
        content = random_text(source)
        if with_media and source.random() < 0.5:
            kinds = source.choices(["image", "video", "text"], k=source.randint(1, 4))
            content = [{"type": kind} if kind != "text" else {"type": "text", "text": random_text(source)}
                       for kind in kinds]
        messages.append(user(content))
        if tools and source.random() < 0.5:
            messages.append(assistant(random_text(source), tool_calls=[CALL] * source.randint(1, 2)))
            messages += [{"role": "tool", "content": random_text(source)}] * source.randint(1, 2)
        text = random_text(source)
        messages.append(assistant(parts(text, "!") if source.random() < 0.2 else text))
    if source.random() < 0.2:
        messages.append(user(random_text(source)))
    return messages, tools


@unittest.skipUnless(HAS_NEEDED, WHY_NEEDED)
class DirectoryTest(unittest.TestCase):
    """Model directories that all tests of a class share."""

    vocabulary = "small"

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-models-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.made = {}

    def make(self, family="qwen2_vl", template=None):
        """The directory of a model."""
        key = (family, template)
        if key not in self.made:
            self.made[key] = models.make(self.directory / f"{family}-{len(self.made)}", family,
                                         "small" if family == "llama" else self.vocabulary, template)
        return self.made[key]

    def changed(self, family="qwen2_vl", **changes):
        """A directory of its own, whose JSON files have other values: config={...}, tokenizer_config={...}."""
        directory = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        shutil.copytree(self.make(family), directory, dirs_exist_ok=True)
        for name, values in changes.items():
            file = directory / f"{name}.json"
            document = json.loads(file.read_text()) if file.exists() else {}
            document.update(values)
            file.write_text(json.dumps({key: value for key, value in document.items() if value is not ...}))
        return directory

    def conversation(self, tokenizer, messages, tools=None):
        document = {"messages": messages, "tools": tools}
        return tokenizer.conversation("shard/key", encode(document), [], media_of(messages))

    def labelled(self, tokenizer, messages, tools=None):
        """The text of each stretch of labelled tokens."""
        (tokens,) = tokenizer.encode([self.conversation(tokenizer, messages, tools)])
        stretches, open_ = [], False
        for number, label in zip(tokens.ids, tokens.labels):
            if label and not open_:
                stretches.append([])
            open_ = bool(label)
            if label:
                stretches[-1].append(number)
        from tokenizers import Tokenizer

        decoder = Tokenizer.from_file(str(pathlib.Path(tokenizer.directory) / "tokenizer.json"))
        return [decoder.decode(stretch, skip_special_tokens=False) for stretch in stretches]


@unittest.skipUnless(HAS_TRANSFORMERS, WHY_TRANSFORMERS)
class Oracle(DirectoryTest):
    """With Qwen's vocabulary if that is installed."""

    vocabulary = "qwen" if HAS_NEEDED and models.has_qwen_vocabulary() else "small"

    def oracle(self, directory):
        import transformers

        return transformers.AutoTokenizer.from_pretrained(directory)

    def check_ids(self, directory, conversations):
        tokenizer, oracle = ModelTokenizer(directory), self.oracle(directory)
        ours = tokenizer.encode([self.conversation(tokenizer, *given) for given in conversations])
        for tokens, (messages, tools) in zip(ours, conversations):
            theirs = oracle.apply_chat_template(messages, tools=tools, tokenize=True, return_dict=True)
            self.assertEqual(tokens.ids.tolist(), theirs["input_ids"], messages)
            self.assertEqual(len(tokens.labels), len(tokens.ids))

    def test_ids_of_chatml(self):
        self.check_ids(self.make(), [
            ([user("a"), assistant("b")], None),
            ([{"role": "system", "content": "Be brief."}, user("a"), assistant("b"), user("c"), assistant("d")], None),
            ([user(parts("image", "What?", "image", "video")), assistant("b")], None),
            ([user("a"), {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "content": "7"},
              {"role": "tool", "content": parts("8", "9")}, assistant("d")], TOOLS),
            *(([user(text), assistant(text)], None) for text in TEXTS)])

    def test_ids_of_random_conversations(self):
        source = random.Random(1)
        self.check_ids(self.make(), [random_conversation(source) for _i in range(RANDOM_CONVERSATIONS)])

    def test_ids_of_letters_with_marks(self):
        """Qwen3.5 keeps a letter and its marks in one word, where models before it cut."""
        if not models.is_known("qwen3_5"):
            self.skipTest("this transformers does not know Qwen3.5")
        texts = ["\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
                 "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
                 "\u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f", "x\u0323\u0302y\u0323\u0302!"]
        conversations = [([user(text), assistant(text)], None) for text in texts]
        for family in ("qwen3_5", "qwen3_5_moe"):
            self.check_ids(self.make(family), conversations)
        if self.vocabulary == "qwen":  # The small one has no words of these letters.
            ids = [[tokens.ids for tokens in tokenizer.encode([self.conversation(tokenizer, *given)
                                                               for given in conversations])]
                   for tokenizer in (ModelTokenizer(self.make("qwen3_5")),
                                     ModelTokenizer(self.make("qwen3_vl", models.reasoning_chatml())))]
            self.assertTrue(any(ours != others for ours, others in zip(*ids)))

    def test_ids_and_text_of_a_template_with_bos(self):
        source = random.Random(2)
        directory = self.make("llama")
        conversations = []
        while len(conversations) < 200:
            messages, _tools = random_conversation(source, with_media=False, with_tools=False)
            if all(isinstance(message["content"], str) for message in messages):
                conversations.append((messages, None))
        self.check_ids(directory, conversations)
        tokenizer, oracle = ModelTokenizer(directory), self.oracle(directory)
        for messages, _tools in conversations:
            for prompt in (False, True):
                self.assertEqual(
                    tokenizer.template.render(self.conversation(tokenizer, messages), add_generation_prompt=prompt),
                    oracle.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt))

    def test_labels_are_those_of_generation_blocks(self):
        for write in (models.chatml, models.reasoning_chatml):
            with self.subTest(template=write.__name__):
                self.check_labels(self.make("qwen2", write(generation=True)), self.make("qwen2", write()))

    def check_labels(self, marked, plain):
        """Compares labels with transformers' masks, for a template with generation blocks and the same without."""
        source = random.Random(3)
        oracle = self.oracle(marked)
        tokenizers = ModelTokenizer(marked), ModelTokenizer(plain)
        for _i in range(RANDOM_CONVERSATIONS):
            messages, tools = random_conversation(source, with_media=False)
            for message in messages:
                if message["role"] == "assistant":
                    # A token that begins before the block is labelled by transformers, and not by us.
                    content = message["content"]
                    message["content"] = (content if isinstance(content, str) else content[0]["text"]).lstrip()
                    message["reasoning_content"] = "A thought."
            theirs = oracle.apply_chat_template(messages, tools=tools, tokenize=True, return_dict=True,
                                                return_assistant_tokens_mask=True)
            for tokenizer in tokenizers:
                (tokens,) = tokenizer.encode([self.conversation(tokenizer, messages, tools)])
                self.assertEqual(tokens.ids.tolist(), theirs["input_ids"])
                self.assertEqual(list(tokens.labels), theirs["assistant_masks"], messages)

    def test_a_text_of_100000_tokens(self):
        source = random.Random(4)
        text = " ".join("".join(source.choices("abcdefghijklmnopqrstuvwxyzäé你", k=6)) for _word in range(15000))
        messages = [user(text), assistant(text)]
        directory = self.make("qwen2", models.chatml(generation=True))
        tokenizer, oracle = ModelTokenizer(directory), self.oracle(directory)
        (tokens,) = tokenizer.encode([self.conversation(tokenizer, messages)])
        self.assertGreater(len(tokens.ids), 100000)
        theirs = oracle.apply_chat_template(messages, tokenize=True, return_dict=True,
                                            return_assistant_tokens_mask=True)
        self.assertEqual(tokens.ids.tolist(), theirs["input_ids"])
        self.assertEqual(list(tokens.labels), theirs["assistant_masks"])

    @unittest.skipUnless(HAS_PROCESSORS, "torch, torchvision or pillow is not installed: ./run test --torch2 has them")
    def test_ids_are_the_processors_before_it_repeats_placeholders(self):
        import PIL.Image
        import transformers

        for family in ("qwen2_vl", "qwen2_5_vl"):
            directory = self.make(family)
            tokenizer = ModelTokenizer(directory)
            processor = transformers.AutoProcessor.from_pretrained(directory)
            pad = tokenizer.placeholders["image"].id
            images = [PIL.Image.new("RGB", size) for size in ((100, 60), (64, 200))]
            messages = [user(parts("image", "and", "image", "?")), assistant("Néant 😀")]
            text = processor.apply_chat_template(messages, tokenize=False)
            theirs = processor(text=[text], images=images)["input_ids"][0]
            (tokens,) = tokenizer.encode([self.conversation(tokenizer, messages)])
            self.assertGreater(list(theirs).count(pad), 2)
            self.assertEqual(tokens.ids.tolist(), [number for i, number in enumerate(theirs)
                                                   if number != pad or theirs[i - 1] != pad])


@unittest.skipUnless(HAS_TRANSFORMERS, WHY_TRANSFORMERS)
class Transcripts(DirectoryTest):
    def test_ids_are_those_of_whispers_tokenizer(self):
        import transformers

        source = random.Random(3)
        words = " ".join(file.read_text(encoding="utf-8") for file in (models.ROOT / "docs").glob("*.md")).split(" ")
        texts = [" ".join(source.choices(words, k=source.randint(1, 30))) for _each in range(RANDOM_TRANSCRIPTS)]
        texts += [text for text in TEXTS if "<|endoftext|>" not in text]
        ways = list(itertools.product((None, "en", "zh", "de"), (None, "transcribe", "translate")))
        for family in ("whisper", "whisper_128"):
            directory = self.make(family)
            tokenizer = TranscriptTokenizer(directory)
            for language, task in ways:
                given = texts if language is task is None else texts[:50]
                oracle = transformers.AutoTokenizer.from_pretrained(directory)
                if language or task:
                    oracle.set_prefix_tokens(language=language, task=task)
                found = tokenizer.encode_each([Transcript("key", text, language, task) for text in given])
                self.assertEqual(len(found), len(given))
                for text, tokens in zip(given, found):
                    self.assertEqual(tokens.ids.tolist(), oracle(text).input_ids, text)
                    self.assertEqual(tokens.labels, b"\0" + b"\1" * (len(tokens.ids) - 1))

    def test_languages_have_names_as_whispers_tokenizer_has_them(self):
        from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

        for name, code in TO_LANGUAGE_CODE.items():
            self.assertEqual([language_code(each) for each in (name, name.title(), code, code.upper())], [code] * 4)
        self.assertEqual(LANGUAGES, TO_LANGUAGE_CODE)
        tokenizer = TranscriptTokenizer(self.changed("whisper", tokenizer_config={"language": "German"}))
        by_code, by_name, none = (tokenizer.encode_each([Transcript("key", "a", language, None)])[0]
                                  for language in ("zh", "Mandarin", "French"))
        self.assertEqual(by_name, by_code)
        self.assertRegex(str(none), "'language' is 'French', and the tokenizer has no language of this code or name")
        with self.assertRaisesRegex(ValueError, "tokenizer_config.json: .*Chinese.*and the post-processor"):
            TranscriptTokenizer(self.changed("whisper", tokenizer_config={"language": "Chinese"}))

    def test_nothing_said_is_an_empty_transcript(self):
        import transformers

        directory = self.make("whisper")
        tokenizer, oracle = TranscriptTokenizer(directory), transformers.AutoTokenizer.from_pretrained(directory)
        for record, texts in ((None, [""]), (b'{"text": ""}', []), (b'{"text": ""}', [""])):
            (tokens,) = tokenizer.encode_each([tokenizer.conversation("key", record, texts, ["audio"])])
            self.assertEqual(tokens.ids.tolist(), oracle("").input_ids)
        for record, texts in ((None, []), (b'{"text": null}', []), (b"{}", []), (None, ["", "a"])):
            with self.assertRaisesRegex(ValueError, "Whisper takes exactly one"):
                tokenizer.conversation("key", record, texts, ["audio"])

    def test_fingerprints_differ_where_ids_do(self):
        ours, other = (TranscriptTokenizer(self.make(family)) for family in ("whisper", "whisper_128"))
        self.assertNotEqual(ours.fingerprint, other.fingerprint)
        self.assertEqual(ours.fingerprint, TranscriptTokenizer(self.changed("whisper")).fingerprint)


class Labels(DirectoryTest):
    def test_which_turns(self):
        messages = [user("a"), assistant("b"), user("c"), assistant("d")]
        for template in (None, models.chatml(generation=True)):
            directory = self.make("qwen2", template)
            self.assertEqual(self.labelled(ModelTokenizer(directory), messages), ["b<|im_end|>", "d<|im_end|>"])
            self.assertEqual(self.labelled(ModelTokenizer(directory, labels="last"), messages), ["d<|im_end|>"])
            self.assertEqual(self.labelled(ModelTokenizer(directory, labels="last"), messages[:2]), ["b<|im_end|>"])
        (everything,) = self.labelled(ModelTokenizer(directory, labels="all"), messages)
        self.assertTrue(everything.startswith("system\nYou"), everything)
        self.assertTrue(everything.endswith("d<|im_end|>\n"), everything)

    def test_where_turns_end(self):
        from tokenizers import Tokenizer

        messages = [user(parts("image", "a")), assistant("b"), user(parts("image", "image", "c")), assistant("d")]
        for options in ({}, {"labels": "last"}, {"labels": "all"}):
            tokenizer = ModelTokenizer(self.make(), **options)
            (tokens,) = tokenizer.encode([self.conversation(tokenizer, messages)])
            ends = [tokens.turns[i:i + 5].tolist() for i in range(0, len(tokens.turns), 5)]
            self.assertEqual([end[1:] for end in ends], [[1, 1, 0, 0], [3, 3, 0, 0]], options)
            decoder = Tokenizer.from_file(str(pathlib.Path(tokenizer.directory) / "tokenizer.json"))
            texts = [decoder.decode(tokens.ids[:end[0]].tolist(), skip_special_tokens=False) for end in ends]
            self.assertTrue(texts[0].endswith("b<|im_end|>") and texts[1].endswith("d<|im_end|>"), texts)
            self.assertTrue(texts[1].startswith(texts[0]))

    def test_characters_of_several_bytes_and_tokens(self):
        for text in ("é", "你好", "😀", "👩‍👩‍👧‍👦x", "🇩🇪"):
            tokenizer = ModelTokenizer(self.make())
            self.assertEqual(self.labelled(tokenizer, [user(text), assistant(text), user("😀"), assistant(text)]),
                             [f"{text}<|im_end|>"] * 2)

    def test_tokens_that_begin_before_a_turn_are_not_labelled(self):
        for template in (None, models.chatml(generation=True)):
            tokenizer = ModelTokenizer(self.make("qwen2", template))
            # The line break is one token with that before it, which the generation prompt ends with.
            self.assertEqual(self.labelled(tokenizer, [user("a"), assistant("\nb")]), ["b<|im_end|>"])

    def test_placeholders_are_never_labelled(self):
        tokenizer = ModelTokenizer(self.make(), labels="all")
        messages = [user(parts("image", "a", "video")), assistant("b")]
        (tokens,) = tokenizer.encode([self.conversation(tokenizer, messages)])
        for placeholder in tokenizer.placeholders.values():
            self.assertEqual(tokens.labels[tokens.ids.index(placeholder.id)], 0)
        self.assertEqual(tokens.labels.count(0), 3)
        tokenizer = ModelTokenizer(self.make())
        self.assertEqual(self.labelled(tokenizer, [user("a"), assistant(parts("image", "b"))]),
                         ["<|vision_start|>", "<|vision_end|>b<|im_end|>"])

    def test_weights_of_turns(self):
        call = {"role": "assistant", "tool_calls": [CALL], "weight": 0.25}
        messages = [user("a"), {**assistant("b"), "weight": 0}, user("c"), {**assistant("d e"), "weight": 0.5},
                    user("f"), assistant("g"), user("h"), call, {"role": "tool", "content": "7"},
                    {**assistant("i"), "weight": 3}]
        generation = models.chatml(generation=True)
        block = "{% generation %}"
        some_of_two = f"{{% if message.content %}}{block}{{% endgeneration %}}{{% endif %}}{block}"
        for template in (None, generation, generation.replace(block, some_of_two)):
            for labels in ("assistant", "last", "all"):
                tokenizer = ModelTokenizer(self.make("qwen2_vl", template), labels=labels)
                (plain,) = tokenizer.encode([self.conversation(tokenizer, [
                    {name: value for name, value in message.items() if name != "weight"} for message in messages])])
                (tokens,) = tokenizer.encode([self.conversation(tokenizer, messages)])
                self.assertEqual((tokens.ids, tokens.turns, list(plain.weights)), (plain.ids, plain.turns, []))
                ends = plain.turns.tolist()[::5]
                with self.subTest(labels=labels, template=template):
                    weights = [(end, weight) for _first, end, weight in tokens.weights]
                    self.assertEqual(weights, [(ends[4], 3)] if labels == "last" else [
                        (ends[1], 0.5), (ends[3], 0.25), (ends[4], 3)])
                    changed = [i for i, (own, other) in enumerate(zip(tokens.labels, plain.labels)) if own != other]
                    if labels == "last":
                        self.assertEqual(changed, [])
                    else:  # The first turn, to its end token.
                        self.assertEqual(changed, list(range(changed[0], ends[0])))
                        self.assertGreater(len(changed), 1)
                    for first, end, _weight in tokens.weights:
                        self.assertTrue(all(tokens.labels[first:end]))
        silent = [user("a"), {**assistant("b"), "weight": 0}]
        with self.assertRaisesRegex(ValueError, "no token is labelled: the assistant's turns .* have the weight 0"):
            tokenizer = ModelTokenizer(self.make())
            tokenizer.encode([self.conversation(tokenizer, silent)])

    def test_switches_of_turns_are_weights(self):
        tokenizer = ModelTokenizer(self.make())
        for off, on in (({"loss": False}, {"loss": True}), ({"train": False}, {"train": True}),
                        ({"loss_weight": 0}, {"loss_weight": 1.0}), ({"weight": 0}, {})):
            messages = [user("a"), {**assistant("b"), **off}, user("c"), {**assistant("d"), **on}]
            self.assertEqual(self.labelled(tokenizer, messages), ["d<|im_end|>"])
            self.assertEqual(tokenizer.take_seen_keys().unread(), {})

    def test_weights_need_turns_that_can_be_told(self):
        tokenizer = ModelTokenizer(self.make("qwen2", NUMBERED), labels="all")
        messages = [user("a"), assistant("b"), user("c"), {**assistant("d"), "weight": 2}]
        with self.assertRaisesRegex(ValueError, "is no prefix"):
            self.labelled(tokenizer, messages)

    def test_remembered_turns_are_those_of_prefixes(self):
        for text in (models.chatml(), models.reasoning_chatml()):
            source = random.Random(5)
            template = TemplateFile(text, "chat_template.jinja")
            shared = ChatTemplate(template, {}, models.QWEN_TOKENS)
            for _i in range(RANDOM_CONVERSATIONS):
                messages, tools = random_conversation(source)
                given = Conversation("key", messages, tools, {})
                fresh = ChatTemplate(template, {}, models.QWEN_TOKENS)
                self.assertEqual(shared.render_with_spans(given), fresh.render_with_spans(given))

    def test_a_conversation_may_begin_with_the_assistant(self):
        tokenizer = ModelTokenizer(self.make())
        self.assertEqual(self.labelled(tokenizer, [assistant("a"), user("b"), assistant("c")]),
                         ["a<|im_end|>", "c<|im_end|>"])

    def test_templates_without_a_generation_prompt(self):
        tokenizer = ModelTokenizer(self.make("llama", INSTRUCT))
        self.assertEqual(self.labelled(tokenizer, [user("a"), assistant("b"), user("c"), assistant("d ")]),
                         [" b<|eot_id|>", " d <|eot_id|>"])

    def test_templates_that_take_lists_alone_and_end_no_turn(self):
        tokenizer = ModelTokenizer(self.make("qwen2_vl", PARTS_ALONE))
        self.assertEqual(self.labelled(tokenizer, [user(parts("image", "a")), assistant("b c"), user("c"),
                                                   assistant("d")]), [" b c", " d "])

    def test_templates_that_take_strings_alone(self):
        tokenizer = ModelTokenizer(self.make("llama"))
        self.assertEqual(self.labelled(tokenizer, [user(parts("a", "b")), assistant(parts("c ", "d"))]),
                         ["c d<|eot_id|>"])
        given = Conversation("key", [user(parts("image")), assistant("b")], None, {"image": 1})
        with self.assertRaisesRegex(ValueError, "chat_template.jinja: the template takes turns of role 'user' as text"):
            tokenizer.encode([given])

    def test_thoughts_that_a_template_leaves_out(self):
        call, answer = assistant("", tool_calls=[CALL]), {"role": "tool", "content": "7"}
        called = "<tool_call>\n<function=weather>\n</function>\n</tool_call><|im_end|>"
        two = [user("a"), assistant("b"), user("c"), assistant("d")]
        tokenizer = ModelTokenizer(self.make("qwen2", models.reasoning_chatml()))
        for messages, wanted in (
                # The line breaks around an empty thought are one token, which begins in the generation prompt.
                (two, ["b<|im_end|>", "</think>\n\nd<|im_end|>"]),
                ([user("a"), assistant("<think>\nhm\n</think>\n\nb"), user("c"), assistant("<think>so</think>d")],
                 ["b<|im_end|>", "so\n</think>\n\nd<|im_end|>"]),
                ([user("a"), assistant("b", reasoning_content="why"), user("c"), call, answer, assistant("d")],
                 ["b<|im_end|>", f"</think>\n\n{called}", "</think>\n\nd<|im_end|>"]),
                ([user("a"), call, answer, assistant("b"), user("c"), assistant("d"), user("e")],
                 [called, "b<|im_end|>", "d<|im_end|>"]),
                ([user("a"), assistant("<|im_start|>"), user("c"), assistant("d", reasoning_content="e")],
                 ["<|im_start|><|im_end|>", "e\n</think>\n\nd<|im_end|>"])):
            with self.subTest(messages=messages):
                self.assertEqual(self.labelled(tokenizer, messages), wanted)
        tokenizer = ModelTokenizer(self.make("qwen2", THINKING))
        for messages, wanted in (([user("a"), assistant("b")], ["<think>\n\n</think>\n\nb<|im_end|>"]),
                                 (two, ["b<|im_end|>", "<think>\n\n</think>\n\nd<|im_end|>"])):
            self.assertEqual(self.labelled(tokenizer, messages), wanted)

    def test_thoughts_in_parts(self):
        thought = {"type": "thinking", "thinking": "hm"}
        answer = {"type": "text", "text": "b"}
        beside = [user("a"), assistant("b", reasoning_content="hm")]
        in_parts = [user("a"), assistant([thought, answer])]

        def text_of(tokenizer, messages):
            (tokens,) = tokenizer.encode([tokenizer.conversation("key", encode({"messages": messages}), [], [])])
            return tokens.ids.tolist(), tokens.labels

        reasoning = ModelTokenizer(self.make("qwen3_vl", models.reasoning_chatml()))
        self.assertEqual(text_of(reasoning, in_parts), text_of(reasoning, beside))
        self.assertEqual(reasoning.take_seen_keys().unread(), {})
        call = [user("a"), assistant([thought], tool_calls=[CALL])]
        self.assertEqual(text_of(reasoning, call),
                         text_of(reasoning, [user("a"), {**assistant(None, tool_calls=[CALL]), "thinking": "hm"}]))
        for bad, why in ((assistant([answer, thought]), "behind other parts"),
                         (assistant([thought, answer], reasoning_content="no"), "keep one of them")):
            (found,) = reasoning.encode_each([reasoning.conversation(
                "key", encode({"messages": [user("a"), bad]}), [], [])])
            self.assertRegex(str(found), why)
        # A template that writes such parts gets them, wherever they stand.
        taking = ModelTokenizer(self.make("qwen2_vl", THINKING_PARTS))
        self.assertEqual(self.labelled_text(taking, [user("a"), assistant([answer, thought, answer])]),
                         ["b[hm]b<|im_end|>"])
        self.assertEqual(taking.take_seen_keys().unread(), {})
        # One that has no thoughts leaves them out, and they are named.
        plain = ModelTokenizer(self.make())
        self.assertEqual(self.labelled_text(plain, in_parts), ["b<|im_end|>"])
        self.assertEqual(text_of(plain, beside), text_of(plain, in_parts))
        found = plain.take_seen_keys()
        self.assertEqual(found.unread(), {("assistant", "reasoning_content"): 3})
        self.assertEqual(str(found), "no model sees thoughts (parts of type 'thinking', or 'reasoning_content') in "
                                     "turns of the assistant of 3 samples; docs/models/tokens.md says what is read")

    def labelled_text(self, tokenizer, messages):
        given = tokenizer.conversation("key", encode({"messages": messages}), [], [])
        tokenizer.conversation, before = (lambda *_rest: given), tokenizer.conversation
        try:
            return self.labelled(tokenizer, messages)
        finally:
            tokenizer.conversation = before

    def test_keys_that_no_model_sees_are_named(self):
        named = ("{% for m in messages %}<|im_start|>{{ m.role ~ (' ' ~ m.name if m.role == 'user' and m.name else '') "
                 "~ '\n' }}{{ m.content if m.content is string else m.content | map(attribute='text') | join }}"
                 "<|im_end|>{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
                 "{% endif %}")
        part = {"type": "text", "text": "b", "cache_control": 1}
        messages = [{**user("a"), "name": "Ann", "id": 7, "empty": ""}, {**assistant([part]), "name": "Bob",
                                                                        "thought": "hm"}]
        tokenizer = ModelTokenizer(self.make("qwen2_vl", named))
        for _time in range(2):
            tokenizer.encode([self.conversation(tokenizer, messages), self.conversation(tokenizer, [
                user("a"), {**assistant("b"), "thought": "x"}])])
        found = tokenizer.take_seen_keys()
        self.assertEqual(found.unread(), {("assistant", "name"): 2, ("assistant", "thought"): 4, ("user", "id"): 2,
                                          ("text part", "cache_control"): 2})
        self.assertEqual(str(found), "no model sees 'name' in turns of the assistant of 2 samples, 'thought' in turns "
                                     "of the assistant of 4 samples, 'cache_control' in text parts of 2 samples, 'id' "
                                     "in turns of the user of 2 samples; docs/models/tokens.md says what is read")
        self.assertEqual(str(tokenizer.take_seen_keys()), "")
        whole = named.replace("m.content if", "m | tojson if m.id else m.content if")
        tokenizer = ModelTokenizer(self.make("qwen2_vl", whole))
        tokenizer.encode([self.conversation(tokenizer, [{**user("a"), "id": 7, "x": 1}, assistant("b")])])
        self.assertEqual(tokenizer.take_seen_keys().unread(), {})

    def test_turns_that_cannot_be_told_are_an_error(self):
        tokenizer = ModelTokenizer(self.make("qwen2", NUMBERED))
        self.assertEqual(self.labelled(tokenizer, [user("a"), assistant("b")]), ["b<|im_end|>"])
        with self.assertRaisesRegex(ValueError, r"chat_template.jinja: what the template writes for the first 2 turns "
                                                r"is no prefix .* \{% generation %\}"):
            self.labelled(tokenizer, [user("a"), assistant("b"), user("c"), assistant("d")])

    def test_generation_blocks_in_macros_are_an_error(self):
        template = ("{% macro m(x) %}{% generation %}{{ x }}{% endgeneration %}{% endmacro %}"
                    "{% for m_ in messages %}{{ m_.role + m(m_.content) }}{% endfor %}")
        with self.assertRaisesRegex(ValueError, "within a macro or a set block"):
            self.labelled(ModelTokenizer(self.make("qwen2", template)), [user("ab"), assistant("cd")])


class BadConversations(DirectoryTest):
    def errors(self, tokenizer, *conversations):
        return [str(error) for error in tokenizer.encode_each(conversations) if isinstance(error, ValueError)]

    def test_what_a_template_objects_to(self):
        tokenizer = ModelTokenizer(self.make("llama"))
        bad = self.conversation(tokenizer, [user("a"), user("b"), assistant("c")])
        good = self.conversation(tokenizer, [user("a"), assistant("c")])
        (error,) = self.errors(tokenizer, bad, good)
        self.assertRegex(error, "chat_template.jinja: the template says: users and assistants must take turns")
        with self.assertRaisesRegex(ValueError, "^shard/key: .*must take turns"):
            tokenizer.encode([good, bad])
        tokenizer = ModelTokenizer(self.make("qwen2", "{{ messages[0].nothing.at_all }}"))
        (error,) = self.errors(tokenizer, good)
        self.assertRegex(error, "the template says: .*has no attribute 'nothing'")

    def test_names_of_media_tokens_agree_with_the_model(self):
        refusals = [("llava", "processor_config", "image_token", "<|im_end|>", "'<image>'"),
                    ("llava", "tokenizer_config", "image_token", {"content": "<|im_end|>"}, "'<image>'"),
                    ("llava_onevision", "processor_config", "video_token", "<image>", "'<video>'"),
                    ("qwen2_vl", "processor_config", "image_token", "<|video_pad|>", "'<|image_pad|>'"),
                    ("qwen2_audio_80", "processor_config", "audio_token", "<|im_end|>", "'<|AUDIO|>'"),
                    ("qwen2_audio_80", "processor_config", "audio_bos_token", "<|im_end|>", "'<|audio_bos|>'"),
                    ("qwen2_audio", "processor_config", "audio_eos_token", "<eos>", "'<|audio_eos|>'")]
        for family, name, key, value, token in refusals:
            token = re.escape(token)
            with self.assertRaisesRegex(ValueError, f"{name}.json: {key} is .*, and .*{token}"):
                ModelTokenizer(self.changed(family, **{name: {key: value}}))
        for family in ("llava", "llava_onevision", "qwen2_audio_80"):
            ModelTokenizer(self.make(family))
        ModelTokenizer(self.changed("llava", processor_config={"image_token": {"content": "<image>"},
                                                               "video_token": "<none>"}))

    def test_a_template_that_does_not_write_calls(self):
        call = json.dumps({"name": "weather", "arguments": {"city": "Oslo"}})
        document = encode({"conversations": [{"from": "human", "value": "a"}, {"from": "function_call", "value": call},
                                             {"from": "observation", "value": "7"}, {"from": "gpt", "value": "b"}],
                           "tools": json.dumps([tool["function"] for tool in TOOLS])})
        tokenizer = ModelTokenizer(self.make("qwen2", THINKING))
        (error,) = self.errors(tokenizer, tokenizer.conversation("k", document, [], []))
        self.assertRegex(error, "chat_template.jinja: the template does not write calls of tools")
        tokenizer = ModelTokenizer(self.make("qwen2"))
        given = tokenizer.conversation("k", document, [], [])
        text = tokenizer.template.render(given)
        self.assertIn('<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>', text)
        self.assertIn("Früh & <spät>", text, "the tools are in the prompt")
        self.assertEqual(len(tokenizer.encode([given])), 1)

    def test_a_bad_conversation_leaves_its_neighbours(self):
        tokenizer = ModelTokenizer(self.make())
        good = self.conversation(tokenizer, [user("a"), assistant("b")])
        surrogate = tokenizer.conversation("k", b'{"messages": [{"role": "user", "content": "\\ud800"}, '
                                                b'{"role": "assistant", "content": "b"}]}', [], [])
        results = tokenizer.encode_each([good, surrogate, good])
        self.assertEqual(results[0], results[2])
        self.assertEqual(results[0], tokenizer.encode([good])[0])
        self.assertRegex(str(results[1]), r"half a surrogate pair \('\\ud800'\)")
        self.assertEqual(tokenizer.encode([]), [])

    def test_numbers_of_placeholders(self):
        template = ("{% for m in messages %}{{ m.role }}{% for part in m.content %}"
                    "{{ part.text or '<|image_pad|>' * 3 }}{% endfor %}{% endfor %}")
        tokenizer = ModelTokenizer(self.make("qwen2_vl", template), labels="all")
        given = Conversation("key", [user(parts("image")), assistant("b")], None, {"image": 1})
        self.assertEqual(self.errors(tokenizer, given),
                         ["the text has 3 image placeholders <|image_pad|> as the template wrote it, and the sample "
                          "has 1 image part"])
        typed = Conversation("key", [user("<|video_pad|>"), assistant("b")], None, {"video": 0})
        self.assertRegex(self.errors(tokenizer, typed)[0], "has 1 video placeholder .* has 0 video parts")

    def test_a_modality_that_the_model_does_not_take(self):
        tokenizer = ModelTokenizer(self.make())
        given = Conversation("key", [user([{"type": "audio"}]), assistant("b")], None, {"audio": 1})
        self.assertRegex(self.errors(tokenizer, given)[0],
                         "1 audio part, and .*config.json has neither audio_token_id nor audio_token_index")

    def test_a_template_that_writes_nothing(self):
        tokenizer = ModelTokenizer(self.make("qwen2", ""), labels="all")
        self.assertRegex(self.errors(tokenizer, self.conversation(tokenizer, [user("a")]))[0], "writes nothing")

    def test_placeholders_typed_by_a_user(self):
        tokenizer = ModelTokenizer(self.make())
        with self.assertRaisesRegex(ValueError, r"turn 1: a text contains <\|image_pad\|>"):
            self.conversation(tokenizer, [user("<|image_pad|>"), assistant("b")])


class Directories(DirectoryTest):
    def check(self, kind, pattern, directory, **options):
        with self.assertRaisesRegex(kind, pattern):
            ModelTokenizer(directory, **options)

    def without(self, *names):
        directory = self.changed()
        for name in names:
            (directory / name).unlink()
        return directory

    def test_missing_files(self):
        self.check(FileNotFoundError, "nowhere: there is no such directory", self.directory / "nowhere")
        self.check(FileNotFoundError, "there is no tokenizer.json. .*save_pretrained", self.without("tokenizer.json"))
        directory = self.without("tokenizer.json")
        (directory / "vocab.json").write_text("{}")
        (directory / "merges.txt").write_text("")
        self.check(FileNotFoundError, "no tokenizer.json, only vocab.json and merges.txt. transformers writes it: "
                                      r"AutoProcessor.from_pretrained\(DIR\).save_pretrained\(DIR\)", directory)
        self.check(FileNotFoundError, "there is no config.json", self.without("config.json"))
        self.check(FileNotFoundError, "no chat template: neither chat_template.jinja, nor 'chat_template' in "
                                      "chat_template.json or tokenizer_config.json",
                   self.without("chat_template.jinja"))

    def test_files_that_cannot_be_read(self):
        directory = self.without()
        (directory / "tokenizer.json").write_text("{}")
        self.check(ValueError, "tokenizer.json: the package tokenizers .* cannot read it", directory)
        directory = self.without()
        (directory / "config.json").write_text("{")
        self.check(ValueError, "config.json: this is no JSON", directory)
        (directory / "config.json").write_text("[]")
        self.check(ValueError, "config.json: must hold a JSON object", directory)
        directory = self.without()
        (directory / "chat_template.jinja").write_text("a\n{% if %}")
        self.check(ValueError, "chat_template.jinja:2: the template says: ", directory)

    def test_where_templates_are(self):
        template = models.chatml()
        named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": template}]
        expected = ModelTokenizer(self.make()).fingerprint
        for changes in ({"chat_template": {"chat_template": template}}, {"tokenizer_config": {"chat_template": named}},
                        {"tokenizer_config": {"chat_template": template}}):
            directory = self.changed(**changes)
            (directory / "chat_template.jinja").unlink()
            tokenizer = ModelTokenizer(directory)
            self.assertEqual(tokenizer.fingerprint, expected)
            self.assertTrue(tokenizer.template.file.endswith(f"{next(iter(changes))}.json"))

    def test_ids_that_contradict_each_other(self):
        largest = max(ModelTokenizer(self.make()).placeholders.values()).id
        self.check(ValueError, "config.json: image_token_id is 999999, and tokenizer.json has no token of that id; "
                               f"its largest id is {largest}", self.changed(config={"image_token_id": 999999}))
        self.check(ValueError, "config.json: image_token_id is '<image>'",
                   self.changed(config={"image_token_id": "<image>"}))
        self.check(ValueError, f"config.json: vocab_size is {largest}, and the largest id in tokenizer.json is "
                               f"{largest}",
                   self.changed(config={"vocab_size": largest}))
        self.check(ValueError, "config.json: text_config.vocab_size is 7",
                   self.changed(config={"text_config": {"vocab_size": 7}}))
        self.check(ValueError, "tokenizer_config.json: added_tokens_decoder gives <extra> the id 5, and in "
                               "tokenizer.json it has none",
                   self.changed(tokenizer_config={"added_tokens_decoder": {"5": {"content": "<extra>"}}}))

    def test_a_template_that_writes_tokens_which_the_tokenizer_lacks(self):
        """Files of an older version, from which one token of the template is gone in silence."""
        document = json.loads((self.make("qwen3_5") / "tokenizer.json").read_text())
        for token in ("<|image_pad|>", "<|vision_start|>", "<|im_end|>", "<think>", "</think>"):
            others = [each for each in document["added_tokens"] if each["content"] != token]
            directory = self.changed("qwen3_5", tokenizer_config={"added_tokens_decoder": ...},
                                     tokenizer={**document, "added_tokens": others})
            self.check(ValueError, f"the template writes the token {re.escape(token)}, which tokenizer.json does not "
                                   "have", directory)

    def test_a_placeholder_that_is_a_piece_of_text_is_refused(self):
        with open(self.make() / "tokenizer.json", encoding="utf-8") as lines:
            number = json.load(lines)["model"]["vocab"]["&"]
        self.check(ValueError, f"config.json: image_token_id is {number}, which tokenizer.json has as '&', a piece of "
                               "text: placeholders are among its added tokens",
                   self.changed(config={"image_token_id": number}))
        for family in ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "llava", "llava_onevision",
                       "internvl", "qwen2_audio"):
            self.assertTrue(ModelTokenizer(self.make(family)).placeholders, family)

    def test_older_names_of_placeholders(self):
        found = ModelTokenizer(self.make()).placeholders["image"]
        directory = self.changed(config={"image_token_id": ..., "image_token_index": found.id})
        self.assertEqual(ModelTokenizer(directory).placeholders["image"], found)

    def test_options(self):
        self.check(ValueError, "labels = 'some'", self.make(), labels="some")
        self.check(ValueError, "write <media> once", self.make(), caption_template="x")

    def test_fingerprints(self):
        tokenizers = [ModelTokenizer(self.make()), ModelTokenizer(self.make(), labels="last"),
                      ModelTokenizer(self.make(), caption_template="<media>What?"),
                      ModelTokenizer(self.make("qwen2_vl", PARTS_ALONE)), ModelTokenizer(self.make("llama")),
                      ModelTokenizer(self.changed(config={"video_token_id": ...})),
                      ModelTokenizer(self.changed(tokenizer_config={"eos_token": "<|endoftext|>"}))]
        self.assertEqual(len({tokenizer.fingerprint for tokenizer in tokenizers}), len(tokenizers))
        again = ModelTokenizer(self.changed(config={"hidden_size": 1}))
        self.assertEqual(again.fingerprint, tokenizers[0].fingerprint)
        self.assertTrue(all(0 <= tokenizer.fingerprint < 2**64 for tokenizer in tokenizers))
        self.assertRegex(tokenizers[1].about, r"qwen2_vl-\d+: \d+ tokens, labels last")

    def test_captions(self):
        tokenizer = ModelTokenizer(self.make(), caption_template="<media>What is it?")
        given = tokenizer.conversation("key", None, ["A cat."], ["image"])
        self.assertTrue(tokenizer.template.render(given).endswith(
            "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What is it?<|im_end|>\n"
            "<|im_start|>assistant\nA cat.<|im_end|>\n"))

    def test_missing_packages(self):
        with unittest.mock.patch.dict("sys.modules", {"tokenizers": None}):
            self.check(ImportError, r"pip install tokenizers jinja2 .the extra isocost\[models\]", self.make())
        with unittest.mock.patch.dict("sys.modules", {"isocost.tokens.template_environment": None}), \
                self.assertRaisesRegex(ImportError, r"pip install tokenizers jinja2 .the extra isocost\[models\]"):
            ChatTemplate(TemplateFile("", "file"), {}, [])

    def test_truncation_and_padding_of_the_file_do_not_count(self):
        directory = self.changed()
        from tokenizers import Tokenizer

        changed = Tokenizer.from_file(str(directory / "tokenizer.json"))
        changed.enable_truncation(4)
        changed.enable_padding(length=100)
        changed.save(str(directory / "tokenizer.json"))
        messages = [user("a b c d e f g"), assistant("h")]
        tokenizers = ModelTokenizer(directory), ModelTokenizer(self.make())
        ours, expected = (one.encode([self.conversation(one, messages)])[0] for one in tokenizers)
        self.assertEqual(ours, expected)


if __name__ == "__main__":
    main()
