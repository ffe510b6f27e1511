"""Prints what the programs and the Python package add to a minimal Debian 12, by apt: the packages that they load, with
their dependencies, beside an empty system with Debian's required packages and apt. Needs apt's lists (apt-get update),
and ends with 77 without them.

    python3 setup/install_size.py [--all]

--all also prints what only FFmpeg adds.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
LISTED = ROOT / "trainer_adapter/python/isocost/debian_packages.txt"
FFMPEG = r"lib(av(?!if)|sw)[a-z]+\d+"
CANNOT_RUN = 77


def megabytes(cache, packages):
    """The megabytes that apt would put on an empty system. `cache` is a directory for what apt reads of its lists."""
    status = pathlib.Path(cache, "status")
    status.touch()
    done = subprocess.run(["apt-get", "-o", f"Dir::State::status={status}", "-o", f"Dir::Cache::pkgcache={cache}/bin",
                           "-o", f"Dir::Cache::srcpkgcache={cache}/src", "--assume-no", "--no-install-recommends",
                           "install", *packages], text=True, capture_output=True,
                          env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    found = re.search(r"After this operation, ([\d,]+) MB", done.stdout)
    if found is None:
        print(f"apt-get does not know all packages: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        sys.exit(CANNOT_RUN)
    return int(found[1].replace(",", ""))


def required():
    known = subprocess.run(["apt-cache", "dumpavail"], text=True, capture_output=True, check=True).stdout
    return sorted({re.search(r"^Package: (\S+)", entry)[1] for entry in known.split("\n\n")
                   if re.search(r"^Priority: required$", entry, re.MULTILINE)})


def main():
    lines = (line.split("#")[0].split() for line in LISTED.read_text().splitlines())
    loaded = [words[-1] for words in lines if words]
    minimal = [*required(), "apt"]
    ffmpeg = [name for name in loaded if re.fullmatch(FFMPEG, name)]
    print(f"packages: {len(loaded)}")
    with tempfile.TemporaryDirectory() as cache:
        base = megabytes(cache, minimal)
        parts = [("with their dependencies", loaded)]
        if sys.argv[1:] == ["--all"]:
            parts.append(("FFmpeg alone", ffmpeg))
        for what, packages in parts:
            print(f"{what}: {megabytes(cache, [*minimal, *packages]) - base} MB")


if __name__ == "__main__":
    main()
