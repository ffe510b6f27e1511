"""What a storage that answers late costs the loader: the demo's photographs, from files whose reads each take some
milliseconds longer (delayed_files), in turn with the files themselves.

Each pass is a process of its own: an embedded node with two workers goes through the samples once, in the order of the
shards or shuffled, into an empty page cache but where the table says that it is full. Prints medians and spreads of
samples a second, after the first tenth of the samples, and the share of the rate from a full page cache. The samples
must be the same.
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
DEADLINE_S = 120


def write_shards(directory):
    """Shards of the demo's photographs, and their index."""
    photographs = sorted((ROOT / "build/demo/made").glob("*.jpg"))
    assert photographs, "no photographs: ./run demo --media-only makes them"
    lines = [json.dumps({"key": f"{copy}-{path.stem}", "parts": [{"name": "jpg", "file": str(path)}]})
             for copy in range(COPIES) for path in photographs]
    manifest = directory / "manifest.jsonl"
    manifest.write_text("\n".join(lines) + "\n")
    for command in (["make-shards", manifest, directory / "shards", "--shard-size", "25MB"],
                    ["index", directory / "shards"]):
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
    for path in shards.glob("*.tar"):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def one_pass(shards, shuffle):
    """Goes through the samples in this process; prints how fast, and which they were."""
    sys.path.insert(0, str(BUILD / "python"))
    import isocost

    ids = []
    with isocost.DataLoader(shards, global_batch_size=8, microbatches=1, shuffle=shuffle, epochs=1, workers=2) as loader:
        first = len(loader) // 10
        for i, microbatch in enumerate(loader):
            ids += microbatch.sample_ids
            if i == first:
                began, counted = time.monotonic(), len(ids)
    print(json.dumps({"rate": (len(ids) - counted) / (time.monotonic() - began), "ids": sorted(ids)}))


def measure(shards, shuffle):
    done = subprocess.run([sys.executable, "-B", __file__, shards, "shuffle" if shuffle else "in order"], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=DEADLINE_S)
    return json.loads(done.stdout)


def main():
    with tempfile.TemporaryDirectory(prefix="isocost-slow-storage-") as scratch, contextlib.ExitStack() as mounts:
        write_shards(pathlib.Path(scratch))
        shards = pathlib.Path(scratch) / "shards"
        storages = {delay: mounts.enter_context(delayed(shards, delay)) for delay in DELAYS_MS}
        works = [(shuffle, delay, full) for shuffle in (False, True) for delay in DELAYS_MS for full in (True, False)
                 if full == (delay == 0)]
        expected = measure(shards, False)["ids"]
        rates = {work: [] for work in works}
        for _ in range(PASSES):
            for work in works:
                shuffle, delay, full = work
                if not full:
                    empty_page_cache(storages[delay])
                answer = measure(storages[delay], shuffle)
                assert answer["ids"] == expected, "other samples came"
                rates[work].append(answer["rate"])
        print(f"{len(expected)} photographs, medians of {PASSES} passes (least to most)")
        for work, own in rates.items():
            shuffle, delay, full = work
            share = statistics.median(a / b for a, b in zip(own, rates[shuffle, 0, True]))
            print(f"{'shuffled' if shuffle else 'in order':9} {'page cache full' if full else f'{delay} ms a read':16} "
                  f"{statistics.median(own):6.1f} samples/s ({min(own):.1f} to {max(own):.1f}), {share:.2f}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        one_pass(sys.argv[1], sys.argv[2] == "shuffle")
    elif not (BUILD / "bench/loader/delayed_files").exists() or not os.access("/dev/fuse", os.W_OK):
        print("skipped: it needs /dev/fuse, and the package libfuse3-dev when the build is configured")
    else:
        main()
