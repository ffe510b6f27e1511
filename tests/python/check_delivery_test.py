"""`isocost check` and delivery agree about every medium of the goldens, and about those that are refused or cut."""

import json
import pathlib
import subprocess
import tarfile
import tempfile
import unittest

import isocost
from support import PROGRAM, TIMEOUT, main

MEDIA = pathlib.Path(__file__).resolve().parents[1] / "decode"
FOLDERS = ("golden", "audio/golden_sounds", "audio/refused_sounds", "video/golden_videos", "video/not_whole",
           "video/refused_videos")
EXPECTED = {".f32", ".rgb", ".ppm", ".json", ".py"}  # beside the media, what they decode to


class CheckAndDelivery(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="isocost-check-")
        cls.addClassCleanup(temporary.cleanup)
        cls.shards = pathlib.Path(temporary.name)
        with tarfile.open(cls.shards / "media.tar", "w") as shard:
            for number, file in enumerate(cls.media()):
                shard.add(file, arcname=f"{number:04}{file.suffix}")

    @staticmethod
    def media():
        return [file for folder in FOLDERS for file in sorted((MEDIA / folder).iterdir())
                if file.is_file() and file.suffix and file.suffix not in EXPECTED]

    def checked(self):
        """Returns the keys of the samples that a check lists as bad, and the number of those that it passes."""
        run = subprocess.run([PROGRAM, "check", self.shards, "--json"], capture_output=True, text=True,
                             timeout=2 * TIMEOUT)
        said = json.loads(run.stdout)
        return {sample["key"] for sample in said["bad"]}, said["samples"]

    def delivered(self):
        node = isocost.NodeOptions(max_bad_samples="100%", bad_samples_file="", decode_program=PROGRAM)
        with isocost.DataLoader(self.shards, global_batch_size=16, microbatches=1, epochs=1, node=node) as loader:
            return [key.rpartition("/")[2] for microbatch in loader
                    for key, weight in zip(microbatch.sample_keys, microbatch.sample_weights) if weight]

    def test_what_a_check_passes_is_delivered_and_nothing_else(self):
        bad, passed = self.checked()
        self.assertGreater(len(bad), 5)
        self.assertGreater(passed, 400)
        found = self.delivered()
        self.assertEqual(len(found), len(set(found)), "each once")
        names = {f"{number:04}": str(file.relative_to(MEDIA)) for number, file in enumerate(self.media())}
        both = {names[key] for key in bad & set(found)}
        self.assertEqual(both, set(), "delivered although a check lists them")
        self.assertEqual(len(found), passed)
        self.assertEqual(len(bad) + passed, len(names))


if __name__ == "__main__":
    main()
