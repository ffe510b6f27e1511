"""Sounds and transcripts for Whisper, compared with transformers' processor, the usual collator and the model."""

import io
import json
import os
import pathlib
import shutil
import tarfile
import tempfile
import unittest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import isocost  # noqa: E402
from audio_model_test import IN_FLOAT32, IN_FLOAT64, IN_ORDER, MISSING, RATE, sound, wav  # noqa: E402
from isocost.tokens.recorded_options import TokenOptions
from isocost.tokens.workers import Settings  # noqa: E402
from support import main  # noqa: E402

if not MISSING:
    import numpy
    import torch
    import transformers

    import model_directories

FAMILIES = ("whisper", "whisper_128")
SECONDS = (0.06, 0.1, 0.25, 0.5, 1, 1.6, 2.5, 4, 7, 11, 29.98)
SAMPLES = 66
MOST = 64  # positions of the decoder


def transcript(i):
    """Returns a transcript of up to 40 tokens, which is sometimes empty."""
    if i % 16 in (6, 7):
        return ""
    words = ["Was", "gesagt", "wird,", "\u00e4\U0001f600", "<|0.02|>", "12.5", "to the model"]
    return " ".join(words[:1 + i % len(words)]) + "."


def sample(i, **document):
    """A sample's members: sometimes the transcript is a text part, sometimes in its JSON."""
    members = {"wav": wav(sound(SECONDS[i % len(SECONDS)], i)[:30 * RATE])}
    if document or i % 2:
        members["json"] = json.dumps({"text": transcript(i), **document}).encode()
    else:
        members["txt"] = transcript(i).encode()
    return members


def text_of(members):
    return members["txt"].decode() if "txt" in members else json.loads(members["json"])["text"]


def write_shard(file, samples):
    """Returns {key: members}."""
    with tarfile.open(file, "w") as out:
        for i, members in enumerate(samples):
            for name, data in members.items():
                entry = tarfile.TarInfo(f"s{i}.{name}")
                entry.size = len(data)
                out.addfile(entry, io.BytesIO(data))
    return {f"{file.name}/s{i}": members for i, members in enumerate(samples)}


class Oracle:
    """The inputs that transformers makes of samples."""

    def __init__(self, directory, samples):
        self.samples = samples
        self.processor = transformers.WhisperProcessor(
            transformers.WhisperFeatureExtractor.from_pretrained(directory),
            transformers.WhisperTokenizer.from_pretrained(directory))
        self.exact = transformers.WhisperFeatureExtractor.from_pretrained(directory)
        vars(self.exact)[IN_FLOAT32] = getattr(self.exact, IN_FLOAT64)
        self.model = transformers.WhisperForConditionalGeneration.from_pretrained(directory, dtype=torch.float32).eval()

    def waves(self, key):
        return numpy.frombuffer(self.samples[key]["wav"][44:], numpy.int16).astype(numpy.float32) / 32768

    def features(self, key, exact=False):
        """float32 [1, bins, 3000]."""
        extractor = self.exact if exact else self.processor.feature_extractor
        return torch.tensor(numpy.array(extractor(self.waves(key), sampling_rate=RATE)["input_features"]),
                            dtype=torch.float32)

    def collated(self, keys):
        """Returns the batch of the collator in transformers' examples, which pads, and cuts the start token off."""
        features = [{"input_features": self.features(key)[0]} for key in keys]
        batch = dict(self.processor.feature_extractor.pad(features, return_tensors="pt"))
        ids = [{"input_ids": self.processor.tokenizer(text_of(self.samples[key])).input_ids} for key in keys]
        padded = self.processor.tokenizer.pad(ids, return_tensors="pt")
        labels = padded["input_ids"].masked_fill(padded["attention_mask"].ne(1), -100)
        if (labels[:, 0] == self.model.config.decoder_start_token_id).all():
            labels = labels[:, 1:]
        return {**batch, "labels": labels}


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class WhisperModel(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-whisper-model-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.shards = self.directory / "shards"
        self.shards.mkdir()

    def made(self, family="whisper", **files):
        """The model's directory, with other settings in some of its files."""
        made = model_directories.make(self.directory / family, family, model=not files)
        for name, settings in files.items():
            file = made / f"{name}.json"
            file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
        return made

    def loader(self, model, node=None, **options):
        options = {"loss": "token_loss", "global_batch_size": 6, "microbatches": 2, **options}
        loader = isocost.DataLoader(self.shards, model=model, node=isocost.NodeOptions(**(node or {})), **options)
        self.addCleanup(loader.close)
        return loader

    def reasons(self, samples, model):
        """Why each sample is bad; "" for the good ones."""
        write_shard(self.shards / "0.tar", samples)
        bad = self.directory / "bad.jsonl"
        node = {"bad_samples_file": str(bad), "max_bad_samples": len(samples)}
        with self.loader(model, node=node, global_batch_size=1, microbatches=1) as loader:
            good = [key for microbatch in loader for key in microbatch.sample_keys]
        reasons = {line["key"]: line["reason"] for line in map(json.loads, bad.read_text().splitlines())}
        self.assertEqual(len(good) + len(reasons), len(samples))
        return [reasons.get(f"s{i}", "") for i in range(len(samples))]

    def test_every_sample_is_what_transformers_makes_of_it(self):
        for family in FAMILIES:
            shutil.rmtree(self.shards)
            self.shards.mkdir()
            samples = write_shard(self.shards / "0.tar", [sample(i) for i in range(SAMPLES)])
            model = self.made(family)
            oracle, seen = Oracle(model, samples), []
            far = values = 0  # of the features
            for microbatch in self.loader(model):
                wanted = oracle.collated(microbatch.sample_keys)
                self.assertEqual(sorted(microbatch), ["input_features", "labels", "use_cache"])
                self.assertEqual(microbatch["labels"].dtype, wanted["labels"].dtype)
                self.assertEqual(microbatch["labels"].tolist(), wanted["labels"].tolist())
                self.assertEqual(microbatch.label_tokens, int((wanted["labels"] != -100).sum()))
                features = microbatch["input_features"]
                self.assertEqual((features.dtype, features.shape), (torch.float32, wanted["input_features"].shape))
                for key, own in zip(microbatch.sample_keys, features):
                    self.assertLess((own - oracle.features(key, exact=True)[0]).abs().max().item(), 1e-5, key)
                off = (features - wanted["input_features"]).abs()
                self.assertLess(off.max().item(), 5e-4)  # of float32, far below a loud tone
                far += int((off > 1e-4).sum())
                values += off.numel()
                seen += microbatch.sample_keys
            self.assertEqual(sorted(seen), sorted(samples))
            self.assertLess(far, values / 10000)

    def test_the_loss_of_a_step_is_that_of_the_usual_collator(self):
        samples = write_shard(self.shards / "0.tar", [sample(i) for i in range(12)])
        for family in FAMILIES:
            model = self.made(family)
            oracle = Oracle(model, samples)
            for batching in (None, "padded", isocost.Padded(multiple=16), isocost.Padded(multiple=1000)):
                loss, keys = 0.0, []
                with torch.no_grad():
                    for microbatch in self.loader(model, batching=batching):
                        logits = oracle.model(**microbatch).logits
                        loss += isocost.token_loss(logits, microbatch).item()
                        keys += microbatch.sample_keys
                        if microbatch.last_of_step:
                            break
                    expected = oracle.model(**oracle.collated(keys)).loss.item()
                self.assertEqual(len(keys), 6)
                self.assertAlmostEqual(loss / expected, 1, delta=1e-5)
                if batching == isocost.Padded(multiple=16):
                    self.assertEqual(microbatch["labels"].shape[1] % 16, 0)
                elif batching == isocost.Padded(multiple=1000):
                    self.assertEqual(microbatch["labels"].shape[1], MOST)

    def test_gradients_do_not_depend_on_the_plan(self):
        samples = write_shard(self.shards / "0.tar", [sample(i) for i in range(8)])
        model = self.made()
        whole = Oracle(model, samples).model.double()
        gradients = []
        for microbatches, node in ((1, IN_ORDER), (4, IN_ORDER), (2, {})):
            whole.zero_grad()
            for microbatch in self.loader(model, node=node, global_batch_size=8, microbatches=microbatches,
                                          shuffle=False):
                given = {**microbatch, "input_features": microbatch["input_features"].double()}
                isocost.token_loss(whole(**given).logits, microbatch).backward()
                if microbatch.last_of_step:
                    break
            gradients.append(torch.cat([own.grad.reshape(-1) for own in whole.parameters() if own.grad is not None]))
        self.assertGreater(gradients[0].abs().max().item(), 1e-3)
        for others in gradients[1:]:
            self.assertLess(((others - gradients[0]).norm() / gradients[0].norm()).item(), 1e-6)

    def test_weights_of_samples_scale_their_loss(self):
        samples = write_shard(self.shards / "0.tar", [sample(i, weight=weight) for i, weight in enumerate((0, 1, 3))])
        model = self.made()
        oracle = Oracle(model, samples)
        for microbatch in self.loader(model, global_batch_size=3, microbatches=1):
            expected = 0.0
            with torch.no_grad():
                loss = isocost.token_loss(oracle.model(**microbatch).logits, microbatch).item()
                for key, weight in zip(microbatch.sample_keys, microbatch.sample_weights):
                    alone = oracle.collated([key])
                    expected += weight * oracle.model(**alone).loss.item() * alone["labels"].numel()
            self.assertAlmostEqual(loss / (expected / microbatch.global_label_tokens), 1, delta=1e-5)

    def test_what_is_planned_is_delivered(self):
        write_shard(self.shards / "0.tar", [sample(i) for i in range(SAMPLES)])
        for microbatch in self.loader(self.made("whisper_128")):
            count = len(microbatch.sample_ids)
            self.assertEqual(microbatch["input_features"].shape, (count, 128, 3000))
            self.assertEqual(len(microbatch.cu_seqlens["audio"]), count + 1)
            self.assertEqual(microbatch.tokens, int(microbatch.cu_seqlens["llm"][-1]))
            # The decoder reads all tokens of a sample but the last.
            self.assertEqual(int((microbatch["labels"] != -100).sum()), microbatch.tokens - count)

    def test_a_sample_may_name_its_language_and_its_task(self):
        own = [{}, {"language": "EN"}, {"task": "translate"}, {"language": "zh", "task": "transcribe"},
               {"language": None, "weight": 1}]
        for family in FAMILIES:
            samples = write_shard(self.shards / "0.tar", [sample(2 * i, **named) for i, named in enumerate(own)])
            model = self.made(family)
            for microbatch in self.loader(model, global_batch_size=1, microbatches=1):
                (key,) = microbatch.sample_keys
                named = own[int(key.rpartition("s")[2])]
                tokenizer = transformers.WhisperTokenizer.from_pretrained(model)
                tokenizer.set_prefix_tokens(language=named.get("language"), task=named.get("task"))
                ids = tokenizer(text_of(samples[key])).input_ids
                self.assertEqual(microbatch["labels"].tolist(), [ids[1:]], (family, key))

    def test_samples_that_are_no_sound_with_its_transcript_are_bad(self):
        audio, text = {"wav": wav(sound(0.5, 1))}, {"txt": b"Hallo."}
        long = " ".join(["Wort"] * 40).encode()
        reasons = self.reasons([
            {**audio, **text},
            text,
            {"0.wav": audio["wav"], "1.wav": audio["wav"], **text},
            audio,
            {**audio, "json": b'{"messages": []}'},
            {**audio, "0.txt": b"Hallo.", "1.txt": b"Hallo."},
            {**audio, **text, "json": b'{"text": "Hello."}'},
            {**audio, "txt": b"<|endoftext|>"},
            {**audio, "txt": long},
            {"wav": wav(sound(30.5, 0)), **text},
            {"wav": wav(sound(1, 0)[:0]), **text},
            {**audio, "json": b'{"text": "Hallo.", "language": "french"}'},
            {**audio, "json": b'{"text": "Hallo.", "task": "sing"}'},
            {**audio, "json": b'{"text": "Hallo.", "task": 3}'},
        ], self.made())
        wanted = ["", "0 sounds, and Whisper takes exactly one", "2 sounds, and Whisper takes exactly one",
                  "0 texts, and Whisper takes exactly one", "0 texts, and Whisper takes exactly one",
                  "2 texts, and Whisper takes exactly one", "", "the transcript contains <|endoftext|>",
                  "for the decoder, which has max_target_positions = 64", "a sound of 30.5 s: Whisper hears 30 s",
                  "no samples", "'language' is 'french', and the tokenizer has no language",
                  "'task' is 'sing': it must be one of transcribe, translate", "'task' of its JSON is no string: 3"]
        self.assertEqual(len(reasons), len(wanted))
        for found, expected in zip(reasons, wanted):
            self.assertTrue(expected in found if expected else not found, (found, expected))

    def test_the_longest_transcript_fills_the_decoder(self):
        model = self.made()
        tokenizer = transformers.WhisperTokenizer.from_pretrained(model)
        text = next(text for text in (" a" * count for count in range(1, MOST))
                    if len(tokenizer(text).input_ids) == MOST + 1)
        audio = {"wav": wav(sound(0.5, 1))}
        reasons = self.reasons([{**audio, "txt": text.encode()}, {**audio, "txt": text.encode() + b" a"}], model)
        self.assertEqual(reasons[0], "")
        self.assertIn(f"its transcript makes {MOST + 1} tokens for the decoder", reasons[1])
        with self.loader(model, node={"max_bad_samples": 9}, global_batch_size=1, microbatches=1) as loader:
            microbatch = next(iter(loader))
            self.assertEqual(microbatch["labels"].shape, (1, MOST))
            transformers.WhisperForConditionalGeneration.from_pretrained(model)(**microbatch)

    def test_a_transcript_over_the_limit_of_a_microbatch_is_bad_since_it_has_no_turns(self):
        audio = {"wav": wav(sound(0.5, 1))}
        write_shard(self.shards / "0.tar", [{**audio, "txt": b"a"}, {**audio, "txt": b"a" * 40}])
        for on_long in ("bad", "truncate"):
            bad = self.directory / f"{on_long}.jsonl"
            with self.loader(self.made(), node={"bad_samples_file": str(bad), "max_bad_samples": 9}, max_tokens=12,
                             on_long=on_long, global_batch_size=1, microbatches=None) as loader:
                self.assertEqual([key for microbatch in loader for key in microbatch.sample_keys], ["0.tar/s0"])
            self.assertIn("max_tokens", bad.read_text())

    def test_a_model_of_english_alone_names_no_language(self):
        model = self.made("whisper_128", generation_config={"is_multilingual": False})
        found = self.reasons([sample(0, language="en", task="transcribe"), sample(0, language="de"),
                              sample(0, task="translate")], model)
        self.assertEqual(found[0], "")
        self.assertIn("'language' is 'de', and the model knows only 'en'", found[1])
        self.assertIn("'task' is 'translate', and the model knows only 'transcribe'", found[2])
        tokenizer = transformers.WhisperTokenizer.from_pretrained(model)
        with self.loader(model, node={"max_bad_samples": 9}, global_batch_size=1, microbatches=1) as loader:
            self.assertEqual(next(iter(loader))["labels"].tolist(), [tokenizer(transcript(0)).input_ids[1:]])

    def test_what_cannot_be_is_refused(self):
        write_shard(self.shards / "0.tar", [sample(0)])
        model = self.made()
        for options, message in (({"loss": "model"}, "loss of whisper takes no num_items_in_batch.*loss='token_loss'"),
                                 ({"batching": "packed"}, "batching = 'packed': the decoder of whisper"),
                                 ({"batching": isocost.Padded("left")}, "its labels are padded on the right")):
            with self.assertRaisesRegex(ValueError, message):
                self.loader(model, **options)
        with self.assertRaisesRegex(ValueError, "labels = 'all': a transcript is no conversation"):
            Settings(str(self.shards), "", str(model), TokenOptions("all")).tokenizer()
        microbatch = next(iter(self.loader(model, global_batch_size=1, microbatches=1)))
        rows, length = microbatch["labels"].shape
        for shape in ((rows, length + 1, 9), (length, 9), (length + 1, 9)):
            with self.assertRaisesRegex(ValueError, "for labels of shape"):
                isocost.token_loss(torch.zeros(shape), microbatch)
        with self.assertRaisesRegex(ValueError, "packed samples, which a model with a decoder"):
            isocost.context_part(microbatch, 0, 2)

    def test_stages_of_a_layout_are_refused_and_one_stage_is_the_whole(self):
        write_shard(self.shards / "0.tar", [sample(i) for i in range(4)])
        model = self.made()
        for pipeline in (2, 1):
            file = self.directory / f"layout-{pipeline}.json"
            degrees = {"tensor": 1, "pipeline": pipeline, "data": 1}
            file.write_text(json.dumps({"version": 1, "encoder_place": "llm", "encoder": degrees, "llm": degrees,
                                        "microbatches": 2, "chunks": 1, "schedule": "1f1b"}))
            if pipeline == 2:
                with self.assertRaisesRegex(ValueError, "cannot be cut into the stages of layout .*layout-2.json"):
                    isocost.DataLoader("tcp://127.0.0.1:1", layout=file, topology=isocost.Place("llm"), model=model,
                                       loss="token_loss")
        microbatch = next(iter(self.loader(model, layout=file, global_batch_size=4, microbatches=None)))
        self.assertIn("input_features", microbatch)

    def test_directories_that_contradict_themselves_are_refused(self):
        write_shard(self.shards / "0.tar", [sample(0)])
        for files, message in (
                ({"tokenizer_config": {"language": None}},
                 'tokenizer_config.json: {"language": null, "task": "transcribe".*transformers 5 goes by the first'),
                ({"tokenizer_config": {"language": "en"}}, 'tokenizer_config.json: {"language": "en"'),
                ({"tokenizer_config": {"task": "translate"}}, 'tokenizer_config.json: .*"translate"'),
                ({"tokenizer_config": {"predict_timestamps": True}}, '"predict_timestamps": true'),
                ({"config": {"decoder_start_token_id": 7}}, "decoder_start_token_id is 7, and <.start"),
                ({"config": {"vocab_size": 1500}}, "vocab_size is 1500, and the largest id"),
                ({"config": {"num_mel_bins": 128}}, "num_mel_bins is 128, and feature_size"),
                ({"config": {"max_source_positions": 750}}, "max_source_positions is 750"),
                ({"preprocessor_config": {"n_fft": 512}}, "n_fft is 512; only 400")):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                self.loader(self.made(**files))

    def test_a_language_may_be_named_in_full(self):
        write_shard(self.shards / "0.tar", [sample(0)])
        model = self.made(tokenizer_config={"language": "German"})
        tokenizer = transformers.WhisperTokenizer.from_pretrained(model)
        microbatch = next(iter(self.loader(model, global_batch_size=1, microbatches=1)))
        self.assertEqual(microbatch["labels"].tolist(), [tokenizer(transcript(0)).input_ids[1:]])


if __name__ == "__main__":
    main()
