"""Measures what it costs a node that its shards lie on a server, and whether its trainer waits for data.

An nginx of this machine answers each request some milliseconds late, and one of them over TLS (bench/peers/nginx.py). A
trainer that takes half as many photographs a second as the node decodes from the disk reads steps of 256, in turn from
the disk and from the servers. Each pass is a process of its own with an embedded node of two workers, whose indexes
are there. Prints medians and spreads: the share of its time that the trainer waits for data after its first step, when
that step was there, CPU seconds a photograph beside the disk's, and requests and bytes beside the samples'. The samples
and their tensors must be the same.
"""

import contextlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
PASSES = 3
COPIES = 40  # of each photograph: 12 steps
STEP = 256
PARTS = 8  # microbatches of a step
LATENCIES_MS = (0, 50, 500)
DISK, TLS = "disk", "server, 0 ms, TLS"
DEADLINE_S = 600


def write_shards(directory):
    """Shards of the demo's photographs. Returns how many samples they have."""
    photographs = sorted((ROOT / "build/demo/made").glob("*.jpg"))
    assert photographs, "no photographs: ./run demo --media-only makes them"
    lines = [json.dumps({"key": f"{copy}-{path.stem}", "parts": [{"name": "jpg", "file": str(path)}]})
             for copy in range(COPIES) for path in photographs]
    manifest = directory / "manifest.jsonl"
    manifest.write_text("\n".join(lines) + "\n", encoding="utf-8")
    subprocess.run([BUILD / "isocost", "make-shards", manifest, directory / "shards", "--shard-size", "25MB"],
                   check=True, capture_output=True)
    return len(lines)


def make_certificate(directory):
    """(certificate, key) of 127.0.0.1."""
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=isocost bench", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def one_pass(data, index_dir, photographs_a_second):
    """Trains on the data in this process; prints what it took, and which samples came."""
    sys.path.insert(0, str(BUILD / "python"))
    import numpy

    import isocost

    waits, ids, sums = [], [], []
    pause = STEP / PARTS / photographs_a_second if photographs_a_second else 0
    began = time.monotonic()
    node = isocost.NodeOptions(index_dir=index_dir, workers=2, tail="drop")
    with isocost.DataLoader(data, global_batch_size=STEP, microbatches=PARTS, epochs=1, node=node) as loader:
        asked = time.monotonic()
        for number, microbatch in enumerate(loader):
            now = time.monotonic()
            waits.append(now - asked)
            ids += microbatch.sample_ids
            sums += [zlib.crc32(numpy.asarray(tensor).tobytes()) for _, tensor in sorted(microbatch.tensors.items())]
            if number + 1 == PARTS:
                first, cpu_before = now, cpu_seconds()
            time.sleep(max(0, pause - (time.monotonic() - now)))
            asked = time.monotonic()
        ended = time.monotonic()
    photographs = len(ids) - STEP
    print(json.dumps({"ids": sorted(ids), "tensors": sums, "wait": sum(waits[PARTS:]) / (ended - first),
                      "rate": photographs / (ended - first), "first": first - began,
                      "cpu": (cpu_seconds() - cpu_before) / photographs}))


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(data, index_dir, environment, photographs_a_second=0.0):
    done = subprocess.run([sys.executable, "-B", __file__, data, index_dir, str(photographs_a_second)], check=False,
                          capture_output=True, text=True, timeout=DEADLINE_S, env=environment)
    if done.returncode != 0:
        sys.exit(f"server_latency_bench: a pass over {data} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def requests_of(log):
    """Returns the number of requests for bytes of shards that the log of a server has, and these bytes."""
    if log is None:
        return 0, 0
    lines = [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
    sent = [int(count) for method, count in lines if method == "GET"]
    return len(sent), sum(sent)


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def start_servers(running, directory, nginx):
    """Returns (address of the shards, log of the requests) by the server's name; None is the disk's log."""
    certificate = make_certificate(directory)
    count = len(list((directory / "shards").glob("*.tar")))
    places = {DISK: (str(directory / "shards"), None)}
    for number, latency in enumerate((*LATENCIES_MS, None)):
        log = directory / f"requests-{number}"
        server = running.enter_context(nginx.serving(directory / "shards", directory / f"server-{number}", latency or 0,
                                                     log=log, certificate=certificate if latency is None else None))
        name = TLS if latency is None else f"server, {latency} ms"
        places[name] = (f"{server.address}/shard-{{000000..{count - 1:06}}}.tar", log)
    return places, {**os.environ, "SSL_CERT_FILE": str(certificate[0]), "NO_PROXY": "127.0.0.1"}


def main():
    sys.path.insert(0, str(ROOT / "bench/peers"))
    import nginx

    if nginx.missing():
        sys.exit(f"server_latency_bench: {nginx.missing()}")
    with tempfile.TemporaryDirectory(prefix="isocost-server-latency-") as scratch, contextlib.ExitStack() as running:
        directory = pathlib.Path(scratch)
        samples = write_shards(directory)
        stored = sum(path.stat().st_size for path in (directory / "shards").glob("*.tar"))
        places, environment = start_servers(running, directory, nginx)
        indexes = directory / "indexes"  # each address has a folder of its own
        for address, _ in places.values():
            subprocess.run([BUILD / "isocost", "index", address, "--index-dir", indexes], check=True,
                           capture_output=True, env=environment)
        full = [measure(places[DISK][0], indexes, environment) for _ in range(PASSES)]
        pace = statistics.median(answer["rate"] for answer in full) / 2
        expected = full[0]
        answers = {name: [] for name in places}
        for _ in range(PASSES):
            for name, (address, log) in places.items():
                before = requests_of(log)
                answer = measure(address, indexes, environment, pace)
                assert answer["tensors"] == expected["tensors"], "other tensors came"
                after = requests_of(log)
                answer["requests"], answer["bytes"] = after[0] - before[0], after[1] - before[1]
                answers[name].append(answer)
    print(f"{samples} photographs, {stored / samples / 1e3:.0f} kB each; the disk gives "
          f"{spread([answer['rate'] for answer in full], 0)} a second, the trainer takes {pace:.0f}; medians of "
          f"{PASSES} passes (least to most)")
    for name, own in answers.items():
        ratios = [answer["cpu"] / disk["cpu"] for answer, disk in zip(own, answers[DISK])]
        drawn = len(expected["ids"])
        print(f"{name:18} wait {spread([100 * answer['wait'] for answer in own], 2)} %; first step after "
              f"{spread([answer['first'] for answer in own], 1)} s; CPU x {spread(ratios, 2)}; "
              f"{max(answer['requests'] for answer in own) / drawn:.2f} requests a sample, "
              f"{max(answer['bytes'] for answer in own) / (stored * drawn / samples):.2f} of its bytes")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        one_pass(sys.argv[1], sys.argv[2], float(sys.argv[3]))
    else:
        main()
