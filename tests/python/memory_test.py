"""A node stays within its memory budget, decode workers included, and loses no good sample for it."""

import pathlib
import subprocess
import threading
import time

import isocost
from support import PROGRAM, TIMEOUT, ShardTest, main, png

MEMORY_MIB = 384
COPIES = 6
# FFmpeg's arguments for each file, from its test picture or tone. Progressive JPEG and interlaced PNG are decoded as a
# whole, the others row by row or frame by frame.
MEDIA = {
    "jpg": ["-f", "lavfi", "-i", "testsrc=size=3200x2400:duration=1:rate=1", "-frames:v", "1"],
    "webp": ["-f", "lavfi", "-i", "testsrc=size=2400x1800:duration=1:rate=1", "-frames:v", "1"],
    "gif": ["-f", "lavfi", "-i", "testsrc=size=1600x1200:duration=1:rate=1", "-frames:v", "1"],
    "bmp": ["-f", "lavfi", "-i", "testsrc=size=1600x1200:duration=1:rate=1", "-frames:v", "1"],
    "mp4": ["-f", "lavfi", "-i", "testsrc=size=1280x720:duration=4:rate=10", "-c:v", "libx264", "-pix_fmt", "yuv420p"],
    "webm": ["-f", "lavfi", "-i", "testsrc=size=640x360:duration=4:rate=10", "-c:v", "libvpx-vp9"],
    "mkv": ["-f", "lavfi", "-i", "testsrc=size=640x360:duration=4:rate=10", "-c:v", "libx265", "-x265-params",
            "log-level=none", "-pix_fmt", "yuv420p"],
    "avi": ["-f", "lavfi", "-i", "testsrc=size=640x360:duration=4:rate=10", "-c:v", "mpeg4"],
    "wav": ["-f", "lavfi", "-i", "sine=duration=100:sample_rate=48000"],
    "flac": ["-f", "lavfi", "-i", "sine=duration=100:sample_rate=48000"],
    "mp3": ["-f", "lavfi", "-i", "sine=duration=100:sample_rate=48000"],
    "ogg": ["-f", "lavfi", "-i", "sine=duration=100:sample_rate=48000", "-c:a", "libvorbis"],
    "opus": ["-f", "lavfi", "-i", "sine=duration=100:sample_rate=48000", "-c:a", "libopus"],
}


def proportional_mib(processes):
    """Memory of processes, what they share counted once (PSS)."""
    total = 0
    for process in processes:
        try:
            lines = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue  # it has ended
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def with_children(process):
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True).stdout
    return [process, *map(int, children.split())]


class Memory(ShardTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        files = cls.directory / "large"
        files.mkdir()
        (files / "0.png").write_bytes(png(2400, 1800, 1))
        for kind, arguments in MEDIA.items():
            subprocess.run(["ffmpeg", "-loglevel", "error", "-y", *arguments, files / f"0.{kind}"], check=True,
                           timeout=TIMEOUT)
        for file in list(files.iterdir()):
            for copy in range(COPIES):
                (files / f"{file.suffix[1:]}{copy}{file.suffix}").write_bytes(file.read_bytes())
            file.unlink()
        cls.samples = COPIES * (1 + len(MEDIA))
        cls.large = cls.directory / "large-shards"
        subprocess.run([PROGRAM, "make-shards", files, cls.large], check=True, capture_output=True, timeout=TIMEOUT)

    def watch(self, node, done):
        while not done.is_set():
            self.peak = max(self.peak, proportional_mib(with_children(node.pid)))
            time.sleep(0.05)

    def test_the_peak_stays_within_the_budget_and_every_sample_is_delivered(self):
        for isolate in ("on", "off"):
            with self.subTest(isolate=isolate):
                self.peak = 0
                node, endpoint = self.serve("--ranks", 1, "--global-batch-size", 8, "--microbatches", 2, "--memory",
                                            f"{MEMORY_MIB}MiB", "--isolate", isolate, data=self.large)
                done = threading.Event()
                watcher = threading.Thread(target=self.watch, args=(node, done))
                watcher.start()
                try:
                    seen = [sample for microbatch in isocost.DataLoader(endpoint, rank=0, world_size=1)
                            for sample, weight in zip(microbatch.sample_ids, microbatch.sample_weights) if weight > 0]
                finally:
                    done.set()
                    watcher.join()
                self.assertEqual(sorted(seen), list(range(self.samples)))
                self.assertEqual(node.wait(TIMEOUT), 0)
                print(f"isolate {isolate}: peak {self.peak:.0f} MiB of {MEMORY_MIB}")
                self.assertLess(self.peak, MEMORY_MIB)


if __name__ == "__main__":
    main()
