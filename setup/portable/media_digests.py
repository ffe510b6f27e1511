"""Prints a digest of the tensors that the installed package isocost makes of every file of a folder, or that it is
refused: two builds of Isocost that print the same decode the same.

    python3 setup/portable/media_digests.py FOLDER >FILE

Files of one medium each; others are passed over. Needs the package isocost with its program on PATH or in
$ISOCOST_PROGRAM, torch and numpy.
"""

import hashlib
import io
import os
import pathlib
import re
import sys
import tarfile
import tempfile

import isocost

MEDIA = set("jpg jpeg png webp gif bmp tif tiff heic avif wav flac ogg opus mp3 m4a aac wma aiff aif caf spx mka weba "
            "mp4 mov mkv webm avi ts mpg flv wmv ogv 3gp".split())


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


def digest_of(microbatch):
    digest = hashlib.sha256()
    for name in sorted(microbatch):
        tensor = microbatch[name]
        is_tensor = hasattr(tensor, "dtype")
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode() if is_tensor else repr(tensor).encode())
        if is_tensor:
            digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:32]


def main():
    folder = pathlib.Path(sys.argv[1])
    digests = {}
    with tempfile.TemporaryDirectory() as temporary:
        shards = pathlib.Path(temporary, "shards")
        shards.mkdir()
        for key in write_shard(folder, shards / "0.tar"):
            digests[key] = "refused"
        node = isocost.NodeOptions(max_bad_samples="100%")
        with isocost.DataLoader(shards, global_batch_size=1, microbatches=1, epochs=1, shuffle=False, node=node,
                                recipe=isocost.RecipeOptions(max_image_patches=1 << 16)) as loader:
            for microbatch in loader:
                for key in microbatch.sample_keys:
                    digests[key.rpartition("/")[2]] = digest_of(microbatch)
    for key, digest in sorted(digests.items()):
        print(key, digest)
    read = sum(digest != "refused" for digest in digests.values())
    print(f"{read} of {len(digests)} read, by isocost {isocost.__version__} of {os.path.dirname(isocost.__file__)}",
          file=sys.stderr)


if __name__ == "__main__":
    main()
