#!/usr/bin/env python3
"""Reads pictures that others have made with Isocost and with Pillow, and counts where they agree.

    pip install pillow pillow-heif numpy
    cmake --build build/release --target read_pictures
    python3 bench/strangers/pictures.py FOLDER...

Every file below the folders is tried whose first bytes are those of a picture. Isocost refuses a file that Pillow reads
only in part, so that Pillow reads it whole here (LOAD_TRUNCATED_IMAGES is not set). The table has a row for each kind;
the files that are not equal follow, with what was said of each.
"""

import argparse
import collections
import pathlib
import subprocess
import sys
import warnings

import numpy
import pillow_heif
from PIL import Image, ImageOps

ROOT = pathlib.Path(__file__).parents[2]
COLUMNS = ("equal", "differ", "refused by both", "refused here alone", "read here alone")
MARKS = ((0, b"\xff\xd8\xff", "JPEG"), (0, b"\x89PNG\r\n\x1a\n", "PNG"), (0, b"GIF8", "GIF"), (0, b"BM", "BMP"),
         (0, b"II*\0", "TIFF"), (0, b"MM\0*", "TIFF"), (0, b"II+\0", "TIFF"), (0, b"MM\0+", "TIFF"),
         (8, b"WEBP", "WebP"))
BRANDS = {b"avif": "AVIF", b"avis": "AVIF", b"heic": "HEIC", b"heix": "HEIC", b"heim": "HEIC", b"heis": "HEIC",
          b"hevc": "HEIC", b"hevx": "HEIC", b"mif1": "HEIF", b"msf1": "HEIF"}
LARGEST = 64 << 20  # bytes of a file


def kind_of(path):
    """The kind that the first bytes tell, or None."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError:
        return None
    for at, mark, kind in MARKS:
        if head[at:at + len(mark)] == mark:
            return kind
    return BRANDS.get(head[8:12]) if head[4:8] == b"ftyp" else None


def pictures(folders):
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST:
                kind = kind_of(path)
                if kind:
                    yield path, kind


class Isocost:
    """A process that decodes one file after another, and is started again after one that ends it."""

    def __init__(self, program):
        self.program = program
        self.process = None

    def read(self, path):
        """The pixels, or what was said instead."""
        if self.process is None:
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL)
        self.process.stdin.write(bytes(path) + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().decode(errors="replace").rstrip("\n")
        verdict, _, rest = line.partition(" ")
        if verdict == "refused":
            return rest
        if verdict != "read":
            status = self.close()
            return f"CRASHED with status {status}"
        width, height = (int(side) for side in rest.split()[1:])
        raw = self.process.stdout.read(3 * width * height)
        return numpy.frombuffer(raw, numpy.uint8).reshape(height, width, 3)

    def close(self):
        if self.process is None:
            return None
        self.process.stdin.close()
        self.process.stdout.close()
        status = self.process.wait(timeout=60)
        self.process = None
        return status


def pillow(path):
    """The pixels that a trainer would have, or what Pillow said instead."""
    try:
        with Image.open(path) as image:
            image.load()
            upright = ImageOps.exif_transpose(image)
            if upright.mode == "I;16" and image.format == "PNG":  # the upper byte: docs/formats.md
                return numpy.repeat((numpy.asarray(upright) >> 8).astype(numpy.uint8)[..., None], 3, axis=2)
            return numpy.asarray(upright.convert("RGB"))
    except Exception as error:  # noqa: BLE001: Pillow raises what its plug-ins do
        return f"{type(error).__name__}: {error}"


def compared(ours, theirs, tolerance):
    """The column, and what is to be told of it."""
    if isinstance(ours, str):
        return ("refused by both" if isinstance(theirs, str) else "refused here alone"), ours
    if isinstance(theirs, str):
        return "read here alone", theirs
    if ours.shape != theirs.shape:
        return "differ", f"sides {ours.shape[1]}x{ours.shape[0]}, not {theirs.shape[1]}x{theirs.shape[0]}"
    apart = numpy.abs(ours.astype(numpy.int16) - theirs)
    most = int(apart.max(initial=0))
    if most <= tolerance:
        return "equal", ""
    return "differ", f"{numpy.count_nonzero(apart.max(axis=2))} of {apart[..., 0].size} pixels, by up to {most}"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER")
    arguments.add_argument("--program", default=ROOT / "build/release/bench/read_pictures")
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    pillow_heif.register_heif_opener()
    isocost = Isocost(chosen.program)
    counts = collections.defaultdict(collections.Counter)
    remarks = []
    for path, kind in pictures(chosen.folders):
        tolerance = 1 if kind in ("HEIC", "HEIF") else 0
        column, remark = compared(isocost.read(path), pillow(path), tolerance)
        counts[kind][column] += 1
        if column != "equal":
            remarks.append(f"{column}: {path}: {remark}")
    isocost.close()
    print(f"| kind | files | {' | '.join(COLUMNS)} |")
    print("|---|" + "---|" * (len(COLUMNS) + 1))
    for kind, row in sorted(counts.items()):
        print(f"| {kind} | {sum(row.values())} | {' | '.join(str(row[column]) for column in COLUMNS)} |")
    total = sum(counts.values(), collections.Counter())
    print(f"| all | {sum(total.values())} | {' | '.join(str(total[column]) for column in COLUMNS)} |\n")
    for remark in sorted(remarks):
        print(remark)
    return 1 if any("CRASHED" in remark for remark in remarks) else 0


if __name__ == "__main__":
    sys.exit(main())
