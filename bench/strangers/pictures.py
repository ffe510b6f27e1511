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
import pathlib
import sys
import warnings

import numpy
import pillow_heif
import sweep
from PIL import Image, ImageOps

ROOT = pathlib.Path(__file__).parents[2]
MARKS = ((0, b"\xff\xd8\xff", "JPEG"), (0, b"\x89PNG\r\n\x1a\n", "PNG"), (0, b"GIF8", "GIF"), (0, b"BM", "BMP"),
         (0, b"II*\0", "TIFF"), (0, b"MM\0*", "TIFF"), (0, b"II+\0", "TIFF"), (0, b"MM\0+", "TIFF"),
         (8, b"WEBP", "WebP"))
BRANDS = {b"avif": "AVIF", b"avis": "AVIF", b"heic": "HEIC", b"heix": "HEIC", b"heim": "HEIC", b"heis": "HEIC",
          b"hevc": "HEIC", b"hevx": "HEIC", b"mif1": "HEIF", b"msf1": "HEIF"}


def kind_of(head):
    """The kind that the first bytes tell, or None."""
    for at, mark, kind in MARKS:
        if head[at:at + len(mark)] == mark:
            return kind
    return BRANDS.get(head[8:12]) if head[4:8] == b"ftyp" else None


def isocost(program, path):
    """The pixels, or what was said instead."""
    try:
        program.send(path)
        _verdict, rest = program.line()
    except sweep.Refused as error:
        return str(error)
    width, height = (int(side) for side in rest.split()[1:])
    return numpy.frombuffer(program.read(3 * width * height), numpy.uint8).reshape(height, width, 3)


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
    program = sweep.Program(chosen.program)
    table = sweep.Table()
    for path, kind in sweep.files(chosen.folders, kind_of):
        tolerance = 1 if kind in ("HEIC", "HEIF") else 0
        table.add(path, kind, *compared(isocost(program, path), pillow(path), tolerance))
    program.close()
    return table.show(("CRASHED",))


if __name__ == "__main__":
    sys.exit(main())
