"""Connections that say nothing, more of them than the node may have descriptors."""

import os
import resource
import socket
import subprocess
import time

import isocost
from support import PROGRAM, SAMPLES, TIMEOUT, ShardTest, main

CONNECTIONS = 600
DESCRIPTORS = 256
# A handshake that does not end is given up after 5 s; as long again for slow machines.
JOINED_S = 15


class Flood(ShardTest):
    def test_a_trainer_joins_and_no_shard_is_lost(self):
        def few_descriptors():
            resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

        node = subprocess.Popen([PROGRAM, "serve", "--data", self.shards, "--bind", "tcp://127.0.0.1:*", "--ranks", "1",
                                 "--global-batch-size", "16", "--bad-samples-file", self.directory / "bad.jsonl"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                preexec_fn=few_descriptors)
        self.addCleanup(node.communicate)
        self.addCleanup(node.kill)
        endpoint = node.stdout.readline().split()[-1]
        port = int(endpoint.rsplit(":", 1)[1])
        for _ in range(CONNECTIONS):
            connection = socket.socket()
            self.addCleanup(connection.close)
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
        deadline = time.monotonic() + TIMEOUT
        while len(os.listdir(f"/proc/{node.pid}/fd")) < DESCRIPTORS and time.monotonic() < deadline:
            time.sleep(0.01)
        began = time.monotonic()
        seen = []
        for microbatch in isocost.DataLoader(endpoint, rank=0, world_size=1):
            if not seen:
                self.assertLess(time.monotonic() - began, JOINED_S)
            seen += microbatch.sample_ids
        self.assertEqual(sorted(seen), list(range(SAMPLES)))
        self.assertEqual(node.wait(timeout=TIMEOUT), 0)


if __name__ == "__main__":
    main()
