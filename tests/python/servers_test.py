"""Shards on servers: a node that is embedded in the trainer, a bucket beside a server and a disk, and secrets."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import urllib.parse
import urllib.request

import isocost
from support import PROGRAM, SAMPLES, TIMEOUT, ShardTest, main

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import fault_server  # noqa: E402

SECRET = "planted-in-the-environment"


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


class Bucket(ShardTest):
    """A bucket is a folder of the server here, which refuses no signature: they are compared with botocore's."""

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        for name in ("bucket", "web", "disk"):
            (self.root / name).mkdir()
        shards = sorted(self.shards.glob("*.tar"))
        self.placed = {"bucket": shards[0], "web": shards[1], "disk": shards[2]}
        for name, shard in self.placed.items():
            shutil.copy(shard, self.root / name)
        self.server = fault_server.FaultServer(self.root)
        self.server.__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)
        address = f"http://127.0.0.1:{self.server.port}"
        environment = {"AWS_ENDPOINT_URL_S3": address, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKEXAMPLE",
                       "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": f"token-{SECRET}",
                       "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
        patched = unittest.mock.patch.dict(os.environ, environment)
        patched.start()
        self.addCleanup(patched.stop)
        self.remote = {"bucket": f"s3://bucket/{shards[0].name}",
                       "web": f"{address.replace('//', f'//user:{SECRET}@')}/web/{shards[1].name}?sig={SECRET}",
                       "disk": str(self.root / "disk" / shards[2].name)}

    def mixture(self, name, paths):
        file = self.root / f"{name}.toml"
        file.write_text("steps = 12\n" + "\n".join(
            f'[[source]]\nname = "{source}"\npath = "{path}"\nproportion = {proportion}\n'
            for (source, path), proportion in zip(paths.items(), (1, 2, 3))))
        return file

    def seen(self, mixture):
        node = isocost.NodeOptions(index_dir=str(self.root / "indexes"), cache=str(self.root / "cache"), correct=False)
        with isocost.DataLoader(mixture, global_batch_size=8, microbatches=2, node=node) as loader:
            found = []
            for microbatch in loader:
                found.append((microbatch.step, microbatch.sample_keys, [
                    (name, tensor.numpy().tobytes()) for name, tensor in sorted(microbatch.tensors.items())]))
            return found, json.dumps(loader.state_dict(after=microbatch))

    def signed_by_botocore(self, entry):
        """The header Authorization that botocore gives to a request which the server has logged."""
        try:
            from botocore import auth, awsrequest, credentials
        except ImportError:
            self.skipTest("botocore is not installed, whose signatures are compared")
        given = entry["headers"]
        names = re.search("SignedHeaders=([^,]+)", given["authorization"])[1].split(";")
        request = awsrequest.AWSRequest(entry["method"], f"http://{given['host']}{entry['path']}",
                                        {name: given[name] for name in names if name != "host"})
        request.context["timestamp"] = given["x-amz-date"]
        signer = auth.S3SigV4Auth(credentials.Credentials("AKEXAMPLE", SECRET, f"token-{SECRET}"), "s3", "us-east-1")
        to_sign = signer.string_to_sign(request, signer.canonical_request(request))
        signer._inject_signature_to_request(request, signer.signature(to_sign, request))  # noqa: SLF001
        return request.headers["Authorization"]

    def test_a_mixture_of_a_bucket_a_server_and_a_disk_is_that_of_three_directories(self):
        local, _ = self.seen(self.mixture("local", self.placed))
        remote, state = self.seen(self.mixture("remote", self.remote))
        self.assertEqual(len(local), 24)
        self.assertEqual(remote, local)
        self.assertNotIn(SECRET, state)
        signed = [entry for entry in self.server.log if entry["path"].startswith("/bucket/")]
        self.assertTrue(signed)
        for entry in signed:
            self.assertEqual(entry["headers"]["authorization"], self.signed_by_botocore(entry))

    def test_secrets_are_in_nothing_that_a_node_writes_or_starts(self):
        mixture = self.mixture("remote", self.remote)
        log = self.root / "log"
        with log.open("w") as written:
            node = subprocess.Popen(
                [PROGRAM, "serve", "--data", mixture, "--bind", "tcp://127.0.0.1:*", "--metrics", "127.0.0.1:0",
                 "--isolate", "on", "--global-batch-size", "8", "--index-dir", self.root / "indexes",
                 "--cache", self.root / "cache", "--summary", self.root / "summary.json",
                 "--bad-samples-file", self.root / "bad.jsonl"], stdout=subprocess.PIPE, stderr=written, text=True)
        self.addCleanup(node.communicate)
        self.addCleanup(node.kill)
        endpoint = node.stdout.readline().split()[-1]
        metrics = next(line.split()[-1] for line in log.read_text().splitlines() if " metrics at " in line)
        with isocost.DataLoader(endpoint, connect_timeout=TIMEOUT) as loader:
            state = None
            for microbatch in loader:
                if microbatch.step == 3 and state is None:
                    state = json.dumps(loader.state_dict(after=microbatch))
                    pages = [urllib.request.urlopen(urllib.parse.urljoin(metrics, page), timeout=TIMEOUT).read()
                             for page in ("/metrics", "/status.json", "/healthz", "/livez")]
                    workers = pathlib.Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
                    started = [pathlib.Path(f"/proc/{worker}/{what}").read_bytes() for worker in workers
                               for what in ("environ", "cmdline")]
        node.wait(TIMEOUT)
        self.assertTrue(workers)
        self.assertEqual(pages[-1], b"ok\n")
        told = [state.encode(), *pages, *started]
        kept = [path for path in self.root.rglob("*") if path.is_file() and path != mixture]
        self.assertTrue(any(path.suffix == ".entry" for path in kept))
        told += [path.read_bytes() for path in kept] + [str(path).encode() for path in kept]
        for text in told:
            self.assertNotIn(SECRET.encode(), text)


if __name__ == "__main__":
    main()
