"""A microbatch as it is handed out: the mapping of its tensors, and what is known of its samples."""

import copy
import json
import pathlib
import pickle
import re
import subprocess
import tarfile
import types
from collections.abc import MutableMapping
from unittest import mock

import torch

import isocost
from isocost import _isocost
from isocost.base import tensor_names
from isocost.base.counted import counted
from isocost.microbatches.microbatch import torch_tensors
from support import PROGRAM, TIMEOUT, ShardTest, main, png


def names(shards):
    """SHARD/KEY of the samples of all shards, in order, as the members of the shards say."""
    keys = {}
    for shard in sorted(pathlib.Path(shards).glob("*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                keys[f"{shard.name}/{member.name.partition('.')[0]}"] = None
    return list(keys)


class AsMapping(ShardTest):
    def microbatch(self):
        self.loader = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2)
        self.addCleanup(self.loader.close)
        return next(iter(self.loader))

    def test_it_shows_its_tensors(self):
        microbatch = self.microbatch()
        self.assertIsInstance(microbatch, MutableMapping)
        self.assertEqual(list(microbatch), list(microbatch.tensors))
        self.assertEqual(len(microbatch), len(microbatch.tensors))
        self.assertIs(microbatch["input_ids"], microbatch.tensors["input_ids"])
        self.assertIn("labels", microbatch)
        self.assertNotIn("pixels", microbatch)
        self.assertIsNone(microbatch.get("pixels"))
        with self.assertRaisesRegex(KeyError, "pixels: this microbatch has no such tensor; it has .*input_ids, "):
            microbatch["pixels"]

    def test_tensor_names_are_those_of_the_schema(self):
        self.assertEqual((tensor_names.INPUT_IDS, tensor_names.LABELS, tensor_names.POSITION_IDS),
                         ("input_ids", "labels", "position_ids"))
        self.assertEqual((tensor_names.LENGTHS, tensor_names.CU_SEQLENS), ("lengths", "cu_seqlens"))
        self.assertEqual(tensor_names.MODULE_LENGTHS,
                         {"vision": "vision_lengths", "audio": "audio_lengths", "llm": "lengths"})
        self.assertEqual(tensor_names.DERIVED, {"loss_weights", *tensor_names.MODULE_CU_SEQLENS.values()})
        self.assertLessEqual(set(self.microbatch()), tensor_names.RECIPE | tensor_names.DERIVED)

    def test_a_model_takes_it_as_keywords(self):
        def model(input_ids, cu_seqlens, **others):
            return len(input_ids), len(cu_seqlens), set(others)

        microbatch = self.microbatch()
        tokens, bounds, others = model(**microbatch)
        self.assertEqual((tokens, bounds - 1), (microbatch.tokens, len(microbatch.sample_ids)))
        self.assertEqual(others | {"input_ids", "cu_seqlens"}, set(microbatch.tensors))

    def test_equality_and_hash_are_those_of_the_object(self):
        loader = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2)
        self.addCleanup(loader.close)
        first, second = iter(loader).__next__(), None
        self.assertEqual(len({first}), 1)
        self.assertTrue(first == first)
        second = isocost.Microbatch.__new__(isocost.Microbatch)
        self.assertFalse(first == second)

    def test_copies_of_it_are_like_it(self):
        microbatch = self.microbatch()
        copies = [copy.deepcopy(microbatch)]
        copies += [pickle.loads(pickle.dumps(microbatch, protocol)) for protocol in range(2, pickle.HIGHEST_PROTOCOL)]
        for copied in copies:
            self.assertNotEqual(copied["input_ids"].data_ptr(), microbatch["input_ids"].data_ptr())
            self.assertEqual((repr(copied), copied.sample_keys), (repr(microbatch), microbatch.sample_keys))
            self.assertEqual(list(copied), list(microbatch))
            self.assertTrue(all(torch.equal(copied[name], tensor) for name, tensor in microbatch.items()))
            copied.to("cpu")

    def test_a_copy_of_a_subclass_keeps_all_it_has(self):
        class Named(isocost.Microbatch):
            __slots__ = ("name",)

        class Free(isocost.Microbatch):
            pass

        loader = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2)
        self.addCleanup(loader.close)
        raw = loader._connection.client().next()  # noqa: SLF001
        for kind in (Named, Free):
            made = kind.received(raw, torch_tensors(raw))
            made.name = "its own"
            copied = copy.deepcopy(made)
            self.assertEqual((repr(copied), copied.name), (repr(made), "its own"))

    def test_to_moves_what_it_shows(self):
        microbatch = self.microbatch()
        microbatch.to("meta")
        self.assertEqual({tensor.device for tensor in microbatch.values()}, {torch.device("meta")})

    def test_it_changes_as_a_dict_does_and_its_attributes_stay(self):
        microbatch = self.microbatch()
        logits = torch.randn(microbatch.tokens, 300)
        loss, names = isocost.token_loss(logits, microbatch), list(microbatch)
        labels = microbatch.pop("labels")
        self.assertTrue(torch.equal(labels, microbatch.packed["labels"]))
        self.assertIsNone(microbatch.pop("labels", None))
        microbatch["labels"] = torch.zeros_like(labels)
        microbatch.update(extra=torch.ones(2))
        del microbatch["lengths"]
        self.assertEqual(set(microbatch), {*names, "extra"} - {"lengths"})
        self.assertEqual(int(microbatch["labels"].sum()), 0)
        self.assertTrue(torch.equal(isocost.token_loss(logits, microbatch), loss))
        self.assertRaisesRegex(KeyError, "lengths: this microbatch has no such tensor", lambda: microbatch["lengths"])
        microbatch.to("meta")
        self.assertEqual({tensor.device.type for tensor in microbatch.values()}, {"meta"})
        self.assertEqual({tensor.device.type for tensor in microbatch.packed.values()}, {"meta"})
        self.assertIs(microbatch["input_ids"], microbatch.packed["input_ids"])

    def test_a_shallow_copy_shares_tensors_and_changes_alone(self):
        microbatch = self.microbatch()
        microbatch["extra"] = 1
        copied = copy.copy(microbatch)
        self.assertIs(copied["input_ids"], microbatch["input_ids"])
        self.assertEqual((copied.position, copied.sample_keys), (microbatch.position, microbatch.sample_keys))
        del copied["extra"]
        copied["input_ids"] = None
        self.assertEqual(microbatch["extra"], 1)
        self.assertIsNotNone(microbatch["input_ids"])

    def test_one_made_of_a_mapping_has_its_tensors(self):
        microbatch = self.microbatch()
        made = type(microbatch)({name: tensor + 1 for name, tensor in microbatch.items()})
        self.assertIs(type(made), isocost.Microbatch)
        self.assertEqual(list(made), list(microbatch))
        self.assertTrue(torch.equal(made["input_ids"], microbatch["input_ids"] + 1))
        self.assertEqual(repr(made), f"<isocost.Microbatch made of a mapping: {', '.join(microbatch)}>")
        with self.assertRaisesRegex(AttributeError, "last_of_step: this microbatch was made of a mapping"):
            made.last_of_step  # noqa: B018
        with self.assertRaisesRegex(AttributeError, "no attribute 'lastofstep'"):
            made.lastofstep  # noqa: B018
        self.assertEqual(pickle.loads(pickle.dumps(made))["input_ids"].tolist(), made["input_ids"].tolist())
        self.assertEqual(repr(isocost.Microbatch(microbatch)), repr(microbatch))
        with self.assertRaisesRegex(TypeError, "timed: this microbatch was made of a mapping"):
            self.loader.timed(made)
        self.assertEqual(len(isocost.Microbatch()), 0)

    def test_torch_converts_it_as_a_mapping(self):
        microbatch = self.microbatch()
        converted = torch.utils.data.default_convert(microbatch)
        self.assertIs(type(converted), isocost.Microbatch)
        self.assertTrue(all(converted[name] is tensor for name, tensor in microbatch.items()))

    def test_tensors_are_converted_in_place_and_by_argument_name(self):
        loader = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2)
        self.addCleanup(loader.close)
        raw = loader._connection.client().next()  # noqa: SLF001
        self.assertEqual([(name, tensor.data_ptr(), list(tensor.shape)) for name, tensor in torch_tensors(raw).items()],
                         [(_isocost.argument_name(name), tensor.data_ptr, tensor.shape)
                          for name, tensor in raw.tensors])

    def test_a_conversion_that_fails_keeps_no_memory(self):
        def refuse(capsule):
            if taken:
                raise ValueError("refused")
            taken.append(torch.utils.dlpack.from_dlpack(capsule))
            return taken[0]

        loader = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2, epochs=1)
        self.addCleanup(loader.close)
        client = loader._connection.client()  # noqa: SLF001
        taken = []
        *_, raw = iter(client.next, None)  # The last one: none comes after it and takes memory.
        del _
        with self.assertRaisesRegex(ValueError, "refused"):
            raw.convert(refuse)
        del raw
        self.assertGreater(client.bytes_in_use(), 0)  # The first tensor's.
        taken.clear()
        self.assertEqual(client.bytes_in_use(), 0)

    def test_a_torch_without_our_dlpack_is_named(self):
        def refuse(capsule):
            raise RuntimeError("from_dlpack received an invalid capsule")

        loader = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2)
        self.addCleanup(loader.close)
        raw = loader._connection.client().next()  # noqa: SLF001
        for found in (refuse, None):  # The second torch has neither function.
            with mock.patch("torch._C._from_dlpack", found), \
                    mock.patch.object(torch.utils, "dlpack", types.SimpleNamespace()), \
                    self.assertRaisesRegex(ImportError, rf"torch {re.escape(torch.__version__)} does not take.*DLPack"):
                torch_tensors(raw)
        self.assertTrue(torch_tensors(raw))

    def test_counts_have_their_noun(self):
        self.assertEqual(counted(1, "label token"), "1 label token")
        self.assertEqual([counted(count, "sample") for count in (0, 2)], ["0 samples", "2 samples"])

    def test_its_text(self):
        microbatch = self.microbatch()
        counts = rf"{len(microbatch.sample_ids)} samples, {microbatch.tokens} tokens, \d+ label tokens"
        self.assertRegex(repr(microbatch), f"^<isocost.Microbatch: epoch 0, step 0, index 0, {counts}>$")


class Samples(ShardTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        files = cls.directory / "media"
        files.mkdir()
        (files / "a.txt").write_text("one")
        (files / "a.json").write_text(json.dumps({"text": "two", "weight": 0.5, "source": {"page": 3}}))
        (files / "b.png").write_bytes(png(84, 56, 1))
        (files / "b.txt").write_text("a picture")
        (files / "b.json").write_text(json.dumps({"label": 7}))
        subprocess.run(["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc=duration=3:size=112x56:rate=10",
                        "-pix_fmt", "yuv420p", files / "c.mp4"], check=True, timeout=TIMEOUT)
        cls.media = cls.directory / "media_shards"
        subprocess.run([PROGRAM, "make-shards", files, cls.media], check=True, capture_output=True, timeout=TIMEOUT)

    def test_keys_are_those_of_the_shards(self):
        keys = names(self.shards)
        with isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2) as loader:
            seen = [(sample, key) for microbatch in loader
                    for sample, key in zip(microbatch.sample_ids, microbatch.sample_keys)]
        self.assertEqual(sorted(seen), list(enumerate(keys)))

    def test_a_transform_knows_key_json_and_parts(self):
        seen = {}
        with isocost.DataLoader(self.media, global_batch_size=3, microbatches=1, shuffle=False,
                                recipe=isocost.RecipeOptions(video_fps=2),
                                transform=lambda sample: seen.setdefault(sample.key, sample) and None) as loader:
            list(loader)
        shard = names(self.media)[0].partition("/")[0]
        self.assertEqual(sorted(seen), [f"{shard}/a", f"{shard}/b", f"{shard}/c"])
        a, b, c = (seen[key] for key in sorted(seen))
        self.assertEqual(a.json, {"text": "two", "weight": 0.5, "source": {"page": 3}})
        self.assertEqual((a.weight, b.json, c.json), (0.5, {"label": 7}, None))
        self.assertEqual({part.modality for part in a.parts}, {"text"})
        self.assertEqual([part.grid for part in a.parts], [None] * len(a.parts))
        (picture,) = [part for part in b.parts if part.modality == "image"]
        self.assertEqual(picture.grid, tuple(b.tensors["vision_grids"][0].tolist()))
        self.assertEqual(picture.timestamps, [])
        (video,) = c.parts
        self.assertEqual((video.modality, video.grid), ("video", tuple(c.tensors["vision_grids"][0].tolist())))
        self.assertEqual(len(video.timestamps), len(c.tensors["vision_grids"]))
        self.assertEqual(video.timestamps, sorted(video.timestamps))
        self.assertLess(video.timestamps[-1], 3)
        self.assertIn(f"{c.id}: {c.key!r}", repr(c))


if __name__ == "__main__":
    main()
