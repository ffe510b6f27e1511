"""Shards on a server, read by a node that is embedded in the trainer."""

import pathlib
import subprocess
import sys

import isocost
from support import PROGRAM, SAMPLES, TIMEOUT, ShardTest, main

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import fault_server  # noqa: E402


class Servers(ShardTest):
    def setUp(self):
        self.server = fault_server.FaultServer(self.shards)
        self.server.__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)
        last = len(list(self.shards.glob("*.tar"))) - 1
        self.address = f"http://127.0.0.1:{self.server.port}/shard-{{000000..{last:06}}}.tar"

    def samples(self, name, **options):
        """The samples of an epoch. Their indexes are kept in a folder of this name."""
        node = isocost.NodeOptions(index_dir=str(self.directory / name), io_timeout=20)
        with isocost.DataLoader(self.address, global_batch_size=8, microbatches=2, node=node, **options) as loader:
            return sorted(sample for microbatch in loader for sample, weight
                          in zip(microbatch.sample_ids, microbatch.sample_weights) if weight > 0)

    def test_an_index_that_was_made_on_a_disk_serves_the_server(self):
        subprocess.run([PROGRAM, "index", self.shards], check=True, capture_output=True, timeout=TIMEOUT)
        for cache in (None, self.directory / "cache"):
            with self.subTest(cache=cache):
                self.assertEqual(self.samples(f"copied-{cache is None}", cache=cache), list(range(SAMPLES)))

    def test_a_request_that_is_refused_once_is_made_again(self):
        self.assertEqual(self.samples("refused"), list(range(SAMPLES)))
        self.server.set_rules([{"fault": "status", "status": 403, "method": "GET", "path": r"\.tar", "skip": 10,
                                "times": 1}])
        self.assertEqual(self.samples("refused"), list(range(SAMPLES)))
        self.assertEqual([entry["status"] for entry in self.server.log if entry["fault"]], [403])

    def test_a_cache_that_holds_the_shards_is_not_asked_around(self):
        for shuffle in (True, "blocks"):
            with self.subTest(shuffle=shuffle):
                for start in range(3):
                    self.server.log.clear()
                    self.assertEqual(self.samples(f"held-{shuffle}", shuffle=shuffle,
                                                  cache=self.directory / f"cache-{shuffle}"), list(range(SAMPLES)))
                    asked = [entry for entry in self.server.log if entry["method"] == "GET"]
                    self.assertEqual(bool(asked), start == 0, start)


if __name__ == "__main__":
    main()
