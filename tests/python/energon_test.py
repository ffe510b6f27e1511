"""Data sets of Megatron Energon, prepared by its own command and read by its own loader, and as Isocost reads them."""

import importlib.util
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

from support import PROGRAM, TIMEOUT, main, png

NEEDED = ("megatron.energon", "torch", "yaml")


def is_missing(name):
    try:
        return importlib.util.find_spec(name) is None
    except ModuleNotFoundError:  # the package that should hold it
        return True


MISSING = [name for name in NEEDED if is_missing(name)]
if not MISSING:
    import torch
    import yaml
    from megatron import energon
    from megatron.energon.task_encoder import DefaultTaskEncoder

    import isocost
    from isocost import _isocost

    @energon.stateless
    def cook(sample):
        return sample

    class AsTheyAre(DefaultTaskEncoder):
        cookers = (energon.Cooker(cook),)

        def encode_sample(self, sample):
            return sample


def write_tar(file, samples):
    """Writes {key: {part: bytes}}."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w") as tar:
        for key, parts in samples.items():
            for part, content in parts.items():
                member = tarfile.TarInfo(f"{key}.{part}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def read_by_isocost(data, **node):
    """The samples in order: key, text, JSON, and the tensors."""
    samples = []

    def keep(sample):
        tensors = {name: tensor.clone() for name, tensor in sample.tensors.items()}
        samples.append((sample.key, sample.text, sample.json, tensors))

    with isocost.DataLoader(data, global_batch_size=1, microbatches=1, shuffle=False, epochs=1, transform=keep,
                            node=isocost.NodeOptions(**node)) as loader:
        for _ in loader:
            pass
    return samples


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed")
class Energon(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-energon-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.data = self.directory / "data"

    def prepare(self, sample_type, field_map, parts, shards=3, samples=4):
        """Writes shards with the parts of each sample, and has Energon prepare them."""
        numbers = iter(range(shards * samples))
        for shard in range(shards):
            write_tar(self.data / f"part_{shard % 2}" / f"{shard}.tar",
                      {f"dir/s{number:02}": parts(number) for _, number in zip(range(samples), numbers)})
        given = ["--field-map", json.dumps(field_map)] if field_map else []
        program = "from megatron.energon.cli.main import main; main()"
        subprocess.run([sys.executable, "-c", program, "prepare", self.data, "--non-interactive", "--no-progress",
                        "--num-workers", "1", "--split-parts", "train:part_0/.*", "--split-parts",
                        "val:part_1/.*", "--sample-type", sample_type, *given],
                       check=True, capture_output=True, timeout=TIMEOUT)
        return self.data / ".nv-meta"

    def read_by_energon(self, split="train"):
        worker = energon.WorkerConfig(rank=0, world_size=1, num_workers=0)
        return list(energon.get_loader(energon.get_val_dataset(
            self.data, split_part=split, worker_config=worker, batch_size=None, task_encoder=AsTheyAre())))

    def key_of(self, sample):
        return f"{sample.__sources__[0].shard_name}/{sample.__key__}"

    def raw_parts(self, split="train"):
        """The bytes of all parts of each sample by its key, as Energon reads them without decoding."""
        config = self.data / ".nv-meta" / "dataset.yaml"
        text = config.read_text()
        config.write_text(yaml.dump({"__module__": "megatron.energon", "__class__": "CrudeWebdataset",
                                     "decoder": None}))
        samples = self.read_by_energon(split)
        config.write_text(text)
        return {f"{sample['__sources__'][0].shard_name}/{sample['__key__']}":
                {part: value for part, value in sample.items() if not part.startswith("__")} for sample in samples}

    def check_like_shards(self, ours, parts):
        """Compares samples with those of plain shards that hold the parts: the same tensors, byte for byte."""
        plain = self.directory / "plain"
        write_tar(plain / "0.tar", {f"{i:04}": each for i, each in enumerate(parts)})
        expected = read_by_isocost(plain)
        self.assertEqual(len(ours), len(expected))
        for (key, text, _, tensors), (_, plain_text, _, plain_tensors) in zip(ours, expected):
            with self.subTest(key=key):
                self.assertEqual(text, plain_text)
                self.assertEqual(sorted(tensors), sorted(plain_tensors))
                for name, tensor in tensors.items():
                    self.assertTrue(torch.equal(tensor, plain_tensors[name]), name)

    def test_captions_in_json_and_pictures_of_alternatives(self):
        meta = self.prepare("CaptioningSample", {"image": "jpg,png", "caption": "json[captions][0][en]"}, lambda i: {
            "png": png(30 + i, 40, i), "json": json.dumps({"captions": [{"en": f"größe {i}"}, {"en": "other"}],
                                                           "url": "x"}).encode(), "txt": b"not this"})
        split = yaml.safe_load((meta / "split.yaml").read_text())
        (meta / "split.yaml").write_text(yaml.dump({**split, "exclude": ["part_0/2.tar/dir/s09"]}))
        for name in ("train", "val"):
            with self.subTest(split=name):
                theirs = self.read_by_energon(name)
                ours = read_by_isocost(self.data, split=name)
                self.assertEqual([key for key, *_ in ours], [self.key_of(sample) for sample in theirs])
                self.assertEqual([text for _, text, *_ in ours], [sample.caption for sample in theirs])
                self.assertEqual([given["text"] for _, _, given, _ in ours], [sample.caption for sample in theirs])
                raw = self.raw_parts(name)
                self.check_like_shards(ours, [{"png": raw[self.key_of(sample)]["png"],
                                               "txt": sample.caption.encode()} for sample in theirs])
        self.assertEqual(len(read_by_isocost(self.data)), 7)  # eight, of which one is excluded

    def test_captions_that_are_members(self):
        self.prepare("CaptioningSample", {"image": "png", "caption": "txt"},
                     lambda i: {"png": png(30 + i, 40, i), "txt": f"caption {i}".encode(), "json": b"{}"})
        theirs = self.read_by_energon()
        ours = read_by_isocost(self.data)
        self.assertEqual([key for key, *_ in ours], [self.key_of(sample) for sample in theirs])
        self.assertEqual([given for _, _, given, _ in ours], [None] * len(theirs))
        raw = self.raw_parts()
        self.check_like_shards(ours, [{"png": raw[self.key_of(sample)]["png"], "txt": sample.caption.encode()}
                                      for sample in theirs])

    @unittest.skipIf(is_missing("tokenizers") or is_missing("jinja2"), "tokenizers or jinja2 not installed")
    def test_questions_and_answers_become_tokens(self):
        import model_directories as models

        self.prepare("VQASample", {"image": "png", "context": "question.txt", "answers": "json[answers]"}, lambda i: {
            "png": png(56, 56, i), "question.txt": f"question {i}?".encode(),
            "json": json.dumps({"answers": [f"answer {i}", "another"]}).encode()})
        theirs = self.read_by_energon()
        model = models.make(self.directory / "model")
        said = subprocess.run([sys.executable, "-B", "-m", "isocost.tokenize", self.data, "--model", model, "--json"],
                              capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(json.loads(said.stdout)["bad_samples"], 0, said.stdout)
        self.assertEqual(json.loads(said.stdout)["samples"], len(theirs))
        opened = _isocost.TokenPass(str(self.data), str(model), "", "", "", "weight", "", False, "", "", "",
                                    1 << 40, "", lambda *_: None)
        samples = [(f"{name}/{key}", json.loads(given)["messages"])
                   for shard, (name, *_) in enumerate(opened.shards)
                   for key, _, given, *_ in opened.samples(shard)]
        self.assertEqual(samples, [
            (self.key_of(sample), [
                {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": sample.context}]},
                {"role": "assistant", "content": sample.answers[0]}]) for sample in theirs])
        with isocost.DataLoader(self.data, model=model, global_batch_size=2, microbatches=1, epochs=1) as loader:
            self.assertEqual(sum(len(microbatch.sample_ids) for microbatch in loader), len(theirs))

    def test_texts_and_images_alone(self):
        parts = {"png": png(30, 40, 1), "txt": b"a text"}
        self.prepare("TextSample", {"text": "txt"}, lambda i: {**parts, "txt": f"text {i}".encode()})
        theirs = self.read_by_energon()
        self.assertEqual([(key, text) for key, text, *_ in read_by_isocost(self.data)],
                         [(self.key_of(sample), sample.text) for sample in theirs])
        (self.data / ".nv-meta" / "dataset.yaml").write_text(yaml.dump({
            "sample_type": {"__module__": "megatron.energon", "__class__": "ImageSample"},
            "field_map": {"image": "png"}}))
        theirs = self.read_by_energon()
        ours = read_by_isocost(self.data)
        self.assertEqual([(key, text) for key, text, *_ in ours], [(self.key_of(sample), "") for sample in theirs])
        self.check_like_shards(ours, [{"png": self.raw_parts()[self.key_of(sample)]["png"]} for sample in theirs])

    def test_crude_samples_have_all_their_parts(self):
        self.prepare("CrudeWebdataset", None, lambda i: {"png": png(30 + i, 40, i), "txt": f"text {i}".encode()})
        raw = self.raw_parts()
        ours = read_by_isocost(self.data)
        self.assertEqual([key for key, *_ in ours], list(raw))
        self.check_like_shards(ours, list(raw.values()))

    def test_code_and_other_counts_are_named(self):
        meta = self.prepare("CaptioningSample", None, lambda i: {"png": png(30, 40, i), "txt": b"text"})
        said = subprocess.run([PROGRAM, "check", self.data], capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(said.returncode, 1)
        self.assertRegex(said.stderr, r"dataset\.yaml: the sample_loader '.*' is code of the data set")
        plain = subprocess.run([PROGRAM, "check", self.data / "part_0", "--format", "webdataset"], capture_output=True,
                               text=True, timeout=TIMEOUT)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        info = json.loads((meta / ".info.json").read_text())
        info["shard_counts"]["part_0/0.tar"] += 1
        (meta / ".info.json").write_text(json.dumps(info))
        (meta / "dataset.yaml").write_text("__module__: megatron.energon\n__class__: CrudeWebdataset\n")
        said = subprocess.run([PROGRAM, "check", self.data], capture_output=True, text=True, timeout=TIMEOUT)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("it has 4 samples, and .info.json says 5", said.stdout + said.stderr)


if __name__ == "__main__":
    main()
