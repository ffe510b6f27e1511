"""Shows that two builds of Isocost make the same tensors of files of every format.

    python3 setup/portable/media_tensors.py save FOLDER FILE.npz     # by the installed package isocost
    python3 setup/portable/media_tensors.py compare FILE.npz FILE.npz [--sounds-within DIFFERENCE]

`save` takes the files of FOLDER, of one medium each, and passes other extensions over. It needs the package isocost,
numpy and torch; decode workers run the program that $ISOCOST_PROGRAM names, or the one beside this Python. `compare`
needs only numpy. Tensors have to be equal, byte by byte, and no file may be refused. With --sounds-within the values
of sounds may differ by so much, since processors round them in their own way.
"""

import argparse
import io
import os
import pathlib
import re
import sys
import tarfile
import tempfile

import numpy

SOUNDS = set("wav flac ogg oga opus mp3 m4a aac wma aiff aif caf spx mka weba".split())
MEDIA = SOUNDS | set("jpg jpeg png webp gif bmp tif tiff heic avif mp4 mov mkv webm avi ts mpg flv wmv ogv 3gp".split())


def write_shard(folder, shard):
    """A sample for each file, whose key is the file's name without dots. Returns their keys."""
    keys = []
    with tarfile.open(shard, "w") as tar:
        for file in sorted(folder.iterdir()):
            extension = file.suffix[1:].lower()
            if extension not in MEDIA:
                continue
            key = re.sub(r"\W", "_", file.name)
            member = tarfile.TarInfo(f"{key}.{extension}")
            member.size = file.stat().st_size
            tar.addfile(member, io.BytesIO(file.read_bytes()))
            keys.append(key)
    return keys


def save(folder, file):
    import isocost

    tensors = {}
    read = set()
    with tempfile.TemporaryDirectory() as temporary:
        shards = pathlib.Path(temporary, "shards")
        shards.mkdir()
        keys = write_shard(folder, shards / "0.tar")
        node = isocost.NodeOptions(max_bad_samples="100%", isolate=True,
                                   decode_program=os.environ.get("ISOCOST_PROGRAM", ""))
        with isocost.DataLoader(shards, global_batch_size=1, microbatches=1, epochs=1, shuffle=False, node=node,
                                recipe=isocost.RecipeOptions(max_image_patches=1 << 16)) as loader:
            for microbatch in loader:
                for sample in microbatch.sample_keys:
                    key = sample.rpartition("/")[2]
                    read.add(key)
                    for name in microbatch:
                        if hasattr(microbatch[name], "dtype"):
                            tensors[f"{key}/{name}"] = microbatch[name].contiguous().numpy()
    if missing := [key for key in keys if key not in read]:
        sys.exit(f"refused: {', '.join(missing)}")
    numpy.savez(file, **tensors)
    print(f"{len(read)} of {len(keys)} files read, by isocost {isocost.__version__} of "
          f"{os.path.dirname(isocost.__file__)}")


def difference(one, other):
    """None for equal tensors, the greatest difference of such as are alike, and infinity for others."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return float("inf")
    if one.tobytes() == other.tobytes():
        return None
    return float(numpy.abs(one.astype(numpy.float64) - other).max())


def compare(first, second, sounds_within):
    one, other = numpy.load(first), numpy.load(second)
    faults = [f"{name}: in one file alone" for name in sorted(set(one.files) ^ set(other.files))]
    greatest = 0.0
    for name in sorted(set(one.files) & set(other.files)):
        apart = difference(one[name], other[name])
        if apart is None:
            continue
        greatest = max(apart, greatest)
        if name.partition("/")[0].rpartition("_")[2] not in SOUNDS or not apart <= sounds_within:  # NaN is neither
            faults.append(f"{name}: differs by {apart:.2g}")
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{len(one.files)} tensors, {len(faults)} of them not as they should be, greatest difference {greatest:.2g}")
    return 1 if faults or not one.files else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    saving = commands.add_parser("save")
    saving.add_argument("folder", type=pathlib.Path)
    saving.add_argument("file")
    comparing = commands.add_parser("compare")
    comparing.add_argument("first")
    comparing.add_argument("second")
    comparing.add_argument("--sounds-within", type=float, default=0.0)
    arguments = parser.parse_args()
    if arguments.command == "save":
        save(arguments.folder, arguments.file)
        return 0
    return compare(arguments.first, arguments.second, arguments.sounds_within)


if __name__ == "__main__":
    sys.exit(main())
