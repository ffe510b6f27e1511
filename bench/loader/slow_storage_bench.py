"""Measures the cost to the loader of a storage that answers late. It reads the demo's photographs from files whose
reads each take some milliseconds longer (delayed_files), in turn with the files themselves.

Each pass is a process of its own: an embedded node with two workers goes through the samples once, in the order of a
few shards, shuffled, or shuffled over many small shards, into an empty page cache but where the table says that it is
full. Prints medians and spreads of samples a second from the first microbatch on, the share of the rate from a full
page cache, and the time to the first microbatch; then how long the many shards take to be indexed. The samples must be
the same.
"""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
PASSES = 5
COPIES = 6  # of each photograph
DELAYS_MS = (0, 5, 20)
FEW, MANY = "few", "many"  # shards
WORKS = {"in order": (FEW, False), "shuffled": (FEW, True), "many shards": (MANY, True)}
DEADLINE_S = 120


def write_shards(directory):
    """Few and many shards of the demo's photographs, and their indexes."""
    photographs = sorted((ROOT / "build/demo/made").glob("*.jpg"))
    assert photographs, "no photographs: ./run demo --media-only makes them"
    lines = [json.dumps({"key": f"{copy}-{path.stem}", "parts": [{"name": "jpg", "file": str(path)}]})
             for copy in range(COPIES) for path in photographs]
    manifest = directory / "manifest.jsonl"
    manifest.write_text("\n".join(lines) + "\n")
    for name, option in ((FEW, ("--shard-size", "25MB")), (MANY, ("--samples-per-shard", "4"))):
        for command in (["make-shards", manifest, directory / name, *option], ["index", directory / name]):
            subprocess.run([BUILD / "isocost", *command], check=True, capture_output=True)


@contextlib.contextmanager
def delayed(shards, milliseconds):
    """The directory, as a mount whose reads are delayed; 0 milliseconds: the directory itself."""
    if milliseconds == 0:
        yield shards
        return
    with tempfile.TemporaryDirectory(prefix="isocost-delayed-") as mount:
        server = subprocess.Popen([BUILD / "bench/loader/delayed_files", shards, mount, str(milliseconds)])
        try:
            deadline = time.monotonic() + 10
            while not os.path.ismount(mount):
                assert server.poll() is None and time.monotonic() < deadline, "it cannot be mounted"
                time.sleep(0.01)
            yield pathlib.Path(mount)
        finally:
            server.terminate()
            server.wait()


def empty_page_cache(shards):
    for path in shards.rglob("*.tar"):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def one_pass(shards, shuffle):
    """Goes through the samples in this process; prints how fast, and which they were."""
    sys.path.insert(0, str(BUILD / "python"))
    import isocost

    ids = []
    began = time.monotonic()
    with isocost.DataLoader(shards, global_batch_size=8, microbatches=1, shuffle=shuffle, epochs=1,
                            workers=2) as loader:
        for microbatch in loader:
            if not ids:
                first = time.monotonic()
            ids += microbatch.sample_ids
    rate = (len(ids) - 8) / (time.monotonic() - first)
    print(json.dumps({"rate": rate, "first": first - began, "ids": sorted(ids)}))


def measure(shards, shuffle):
    done = subprocess.run([sys.executable, "-B", __file__, shards, "shuffle" if shuffle else "in order"], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=DEADLINE_S)
    return json.loads(done.stdout)


def index_seconds(shards, scratch, *options):
    """Returns the seconds of indexing shards that are not in the page cache, into a new directory."""
    empty_page_cache(shards)
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        began = time.monotonic()
        subprocess.run([BUILD / "isocost", "index", shards, "--index-dir", directory, *options], check=True,
                       capture_output=True)
        return time.monotonic() - began


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main():
    with tempfile.TemporaryDirectory(prefix="isocost-slow-storage-") as scratch, contextlib.ExitStack() as mounts:
        root = pathlib.Path(scratch) / "shards"
        root.mkdir()
        write_shards(root)
        storages = {delay: mounts.enter_context(delayed(root, delay)) for delay in DELAYS_MS}
        runs = [(work, delay) for work in WORKS for delay in DELAYS_MS]
        expected = {name: measure(root / name, False)["ids"] for name in (FEW, MANY)}
        answers = {run: [] for run in runs}
        for _ in range(PASSES):
            for work, delay in runs:
                name, shuffle = WORKS[work]
                if delay > 0:
                    empty_page_cache(storages[delay])
                answer = measure(storages[delay] / name, shuffle)
                assert answer["ids"] == expected[name], "other samples came"
                answers[work, delay].append(answer)
        print(f"{len(expected[FEW])} photographs, medians of {PASSES} passes (least to most)")
        for (work, delay), own in answers.items():
            rates, firsts = ([answer[what] for answer in own] for what in ("rate", "first"))
            share = statistics.median(a / b["rate"] for a, b in zip(rates, answers[work, 0]))
            print(f"{work:12} {f'{delay} ms a read' if delay else 'page cache full':16} {spread(rates, 0)} samples/s, "
                  f"{share:.2f}; first after {spread(firsts, 2)} s")
        for options in ((), ("--workers", "2")):
            times = [index_seconds(storages[DELAYS_MS[1]] / MANY, scratch, *options) for _ in range(PASSES)]
            print(f"index {len(list((root / MANY).glob('*.tar')))} shards, {DELAYS_MS[1]} ms a read "
                  f"{' '.join(options) or 'default'}: {spread(times, 2)} s")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        one_pass(sys.argv[1], sys.argv[2] == "shuffle")
    elif not (BUILD / "bench/loader/delayed_files").exists() or not os.access("/dev/fuse", os.W_OK):
        print("skipped: it needs /dev/fuse, and the package libfuse3-dev when the build is configured")
    else:
        main()
