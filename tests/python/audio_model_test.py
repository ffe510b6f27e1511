"""Sounds for a model's directory as the loader's recipe, compared with transformers' own processor and model."""

import importlib.util
import io
import json
import pathlib
import shutil
import tarfile
import tempfile
import unittest
import wave

import isocost
from support import main

NEEDED = ("transformers", "tokenizers", "jinja2")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import numpy
    import torch
    import transformers

    import model_directories

    if not hasattr(transformers, "Qwen2AudioProcessor"):
        MISSING.append("a transformers that has Qwen2-Audio")

RATE = 16000
SECONDS = (0.1, 0.13, 0.25, 0.5, 0.73, 1, 1.6, 2.5, 4, 7, 11, 29.98, 35, 40)
CONVERSATIONS = 102
FAMILIES = ("qwen2_audio", "qwen2_audio_80")
IN_ORDER = {"balance": "in-order", "correct": False}


def sound(seconds, seed):
    """int16 [samples] of tones in noise, a part of it silent."""
    numbers = numpy.random.default_rng(seed)
    at = numpy.arange(int(seconds * RATE) + seed % 160)
    tones = sum(numbers.uniform(0, 4000) * numpy.sin(at * numbers.uniform(0.01, 3)) for _each in range(3))
    noise = numbers.normal(0, 10.0 ** numbers.uniform(-1, 3), len(at))
    return ((tones + noise) * (at // 5000 % 3 != seed % 4)).astype(numpy.int16)


def wav(samples):
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    return out.getvalue()


def conversation(i, seconds=SECONDS):
    """The messages of a sample, and its sounds: none, one or two."""
    sounds = [sound(seconds[(i + 5 * k) % len(seconds)], 10 * i + k) for k in range(i % 3)]
    heard = [{"type": "audio"} for _each in sounds]
    messages = [{"role": "user", "content": [*heard, {"type": "text", "text": f"Question {i}? \u00e4\U0001f600"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "An answer. " * (1 + i % 7)}]}]
    return messages, sounds


def write_shard(file, conversations):
    """Returns {key: (messages, sounds)}."""
    with tarfile.open(file, "w") as out:
        for i, (messages, sounds) in enumerate(conversations):
            members = {"json": json.dumps({"messages": messages}).encode(),
                       **{f"{k}.wav": wav(samples) for k, samples in enumerate(sounds)}}
            for name, data in members.items():
                entry = tarfile.TarInfo(f"s{i}.{name}")
                entry.size = len(data)
                out.addfile(entry, io.BytesIO(data))
    return {f"{file.name}/s{i}": given for i, given in enumerate(conversations)}


# How an extractor computes features: with torch, and without it.
IN_FLOAT32, IN_FLOAT64 = "_torch_extract_fbank_features", "_np_extract_fbank_features"


class Oracle:
    """The inputs that transformers makes of a sample."""

    def __init__(self, directory, samples):
        self.samples = samples
        tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        extractor = transformers.WhisperFeatureExtractor.from_pretrained(directory)
        self.template = (directory / "chat_template.jinja").read_text()
        self.processor = transformers.Qwen2AudioProcessor(extractor, tokenizer, chat_template=self.template)
        self.exact = transformers.WhisperFeatureExtractor.from_pretrained(directory)
        # The extractor computes in float64, like it does without torch.
        vars(self.exact)[IN_FLOAT32] = getattr(self.exact, IN_FLOAT64)
        self.model = transformers.Qwen2AudioForConditionalGeneration.from_pretrained(directory,
                                                                                     dtype=torch.float32).eval()

    def sample(self, key):
        """The processor's tensors, and labels [1, tokens]."""
        messages, sounds = self.samples[key]
        text = self.processor.tokenizer.apply_chat_template(messages, tokenize=False, chat_template=self.template)
        heard = {} if not sounds else {"audio": [samples.astype(numpy.float32) / 32768 for samples in sounds],
                                       "sampling_rate": RATE}
        made = dict(self.processor(text=[text], return_tensors="pt", **heard))
        made.pop("attention_mask")
        made.pop("token_type_ids", None)
        return {**made, "labels": torch.tensor([self.labels(made["input_ids"][0].tolist())])}

    def exact_features(self, key):
        """float32 [clips, bins, 3000]."""
        sounds = [samples.astype(numpy.float32) / 32768 for samples in self.samples[key][1]]
        return torch.tensor(self.exact(sounds, sampling_rate=RATE)["input_features"], dtype=torch.float32)

    def labels(self, ids):
        """The assistant's turns, without the role and the line break after them."""
        head = self.processor.tokenizer("<|im_start|>assistant\n", add_special_tokens=False)["input_ids"]
        (end,) = self.processor.tokenizer("<|im_end|>", add_special_tokens=False)["input_ids"]
        labels = [-100] * len(ids)
        for i in range(len(ids)):
            if ids[i:i + len(head)] == head:
                turn = slice(i + len(head), ids.index(end, i) + 1)
                labels[turn] = ids[turn]
        return labels

    def loss(self, key):
        """Summed over the sample's label tokens, and their number."""
        sample = self.sample(key)
        count = int((sample["labels"] != -100).sum())
        return self.model(**sample, use_cache=False).loss.item() * count, count


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class AudioModel(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-audio-model-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.shards = self.directory / "shards"
        self.shards.mkdir()

    def made(self, family="qwen2_audio"):
        return model_directories.make(self.directory / family, family, model=True)

    def loader(self, model, node=None, **options):
        options = {"loss": "token_loss", "global_batch_size": 6, "microbatches": 2, **options}
        loader = isocost.DataLoader(self.shards, model=model, node=isocost.NodeOptions(**(node or {})), **options)
        self.addCleanup(loader.close)
        return loader

    def test_every_sound_is_what_transformers_makes_of_it(self):
        for first, family in enumerate(FAMILIES):
            shutil.rmtree(self.shards)
            self.shards.mkdir()
            samples = write_shard(self.shards / "0.tar",
                                  [conversation(first * CONVERSATIONS + i) for i in range(CONVERSATIONS)])
            model = self.made(family)
            oracle, seen, clips = Oracle(model, samples), [], 0
            far = values = 0  # of the features
            for microbatch in self.loader(model):
                given, next_clip = microbatch.tensors, 0
                sums = microbatch.cu_seqlens["llm"].tolist()
                for i, key in enumerate(microbatch.sample_keys):
                    own = slice(sums[i], sums[i + 1])
                    wanted = oracle.sample(key)
                    self.assertEqual(given["input_ids"][0, own].tolist(), wanted["input_ids"][0].tolist(), key)
                    self.assertEqual(microbatch.packed["labels"][own].tolist(), wanted["labels"][0].tolist(), key)
                    self.assertEqual(given["position_ids"][0, own].tolist(), list(range(sums[i + 1] - sums[i])))
                    if "input_features" in wanted:
                        features, mask = wanted["input_features"], wanted["feature_attention_mask"]
                        rows = slice(next_clip, next_clip + len(features))
                        self.assertEqual(given["feature_attention_mask"].dtype, mask.dtype)
                        self.assertTrue(torch.equal(given["feature_attention_mask"][rows], mask), key)
                        self.assertEqual(given["input_features"].dtype, features.dtype)
                        self.assertEqual(given["input_features"][rows].shape, features.shape)
                        off = (given["input_features"][rows] - oracle.exact_features(key)).abs()
                        self.assertLess(off.max().item(), 1e-5, key)
                        off = (given["input_features"][rows] - features).abs()
                        self.assertLess(off.max().item(), 5e-4, key)  # of float32, far below a loud tone
                        far += int((off > 1e-4).sum())
                        values += off.numel()
                        next_clip = rows.stop
                    seen.append(key)
                self.assertEqual(next_clip, len(given.get("input_features", ())))
                clips += next_clip
            self.assertEqual(sorted(seen), sorted(samples))
            self.assertEqual(clips, CONVERSATIONS)
            self.assertLess(far, values / 10000)

    def test_the_loss_of_a_step_is_that_of_its_samples_one_by_one(self):
        samples = write_shard(self.shards / "0.tar", [conversation(i, (0.1, 0.3, 2)) for i in range(12)])
        ways = ("packed", "padded", isocost.Padded("left", 64))
        for family in FAMILIES:
            model = self.made(family)
            oracle = Oracle(model, samples)
            loaders = [self.loader(model, batching=way, node=IN_ORDER) for way in ways]
            losses, expected, tokens = [0.0] * len(ways), 0.0, 0
            with torch.no_grad():
                for microbatches in zip(*loaders):
                    for way, microbatch in enumerate(microbatches):
                        self.assertEqual(microbatch.sample_ids, microbatches[0].sample_ids)
                        self.assertNotIn("labels", microbatch)
                        logits = oracle.model(**microbatch).logits
                        losses[way] += isocost.token_loss(logits, microbatch).item()
                    for key in microbatches[0].sample_keys:
                        loss, count = oracle.loss(key)
                        expected += loss
                        tokens += count
                    if microbatches[0].last_of_step:
                        break
            self.assertEqual(tokens, microbatches[0].global_label_tokens)
            for loss in losses:
                self.assertAlmostEqual(loss / (expected / tokens), 1, delta=1e-5)

    def test_the_models_own_loss_is_refused(self):
        with self.assertRaisesRegex(ValueError, "loss of qwen2_audio takes no num_items_in_batch.*loss='token_loss'"):
            self.loader(self.made(), loss="model")

    def test_bad_sounds_are_bad_samples_with_a_reason(self):
        conversations = [conversation(1), conversation(2), conversation(1), conversation(1)]
        conversations[1] = (conversations[1][0], conversations[1][1][:1])  # two placeholders, one sound
        conversations[2] = (conversations[2][0], [sound(1, 0)[:960]])
        conversations[3] = (conversations[3][0], [sound(1, 0)[:0]])
        write_shard(self.shards / "0.tar", conversations)
        bad = self.directory / "bad.jsonl"
        with self.loader(self.made(), node={"bad_samples_file": str(bad), "max_bad_samples": 10}, global_batch_size=1,
                         microbatches=1) as loader:
            keys = [key for microbatch in loader for key in microbatch.sample_keys]
        self.assertEqual(keys, ["0.tar/s0"])
        reasons = {line["key"]: line["reason"] for line in map(json.loads, bad.read_text().splitlines())}
        self.assertIn("2 audio", reasons["s1"])
        self.assertIn("a sound of 960 samples at 16 kHz", reasons["s2"])
        self.assertIn("no samples", reasons["s3"])

    def test_a_model_without_sound_takes_none(self):
        write_shard(self.shards / "0.tar", [conversation(0), conversation(1)])
        bad = self.directory / "bad.jsonl"
        model = model_directories.make(self.directory / "llava", "llava")
        with self.loader(model, node={"bad_samples_file": str(bad), "max_bad_samples": 10}, global_batch_size=1,
                         microbatches=1) as loader:
            self.assertEqual([key for microbatch in loader for key in microbatch.sample_keys], ["0.tar/s0"])
        self.assertIn("the model takes no audio", bad.read_text())

    def test_a_directory_that_contradicts_itself_is_refused(self):
        write_shard(self.shards / "0.tar", [conversation(1)])
        model = self.made()
        file = model / "preprocessor_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "feature_size": 80}))
        with self.assertRaisesRegex(ValueError, "num_mel_bins is 128, and feature_size in .* is 80"):
            self.loader(model)


if __name__ == "__main__":
    main()
