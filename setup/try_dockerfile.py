#!/usr/bin/env python3
"""Carries out a Dockerfile without a container engine: every stage in a Debian 12 root of its own, by chroot.

    sudo setup/try_dockerfile.py deploy/Dockerfile ROOT.tar

ROOT.tar is what `./run package` keeps of debootstrap. Knows the instructions that deploy/Dockerfile uses, of which COPY
takes one source; others are an error. At the end it runs the image's entry point with its default arguments, and makes
keys, shards and a data profile as the image's user in the image's working directory.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
               "DEBIAN_FRONTEND": "noninteractive"}


def instructions(file):
    """(keyword, argument) pairs; continued lines are joined, comments dropped."""
    text = "\n".join(line for line in file.read_text().splitlines() if not line.lstrip().startswith("#"))
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            keyword, _, argument = line.strip().partition(" ")
            yield keyword.upper(), argument.strip()


class Stage:
    def __init__(self, root, base):
        self.root = root
        self.workdir, self.user, self.entry, self.arguments = "/", None, [], []
        root.mkdir()
        subprocess.run(["tar", "-C", root, "-xf", base], check=True)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")

    def run(self, command):
        user = [f"--userspec={self.user}"] if self.user else []
        subprocess.run(["chroot", *user, self.root, "sh", "-c", f"cd {self.workdir} && exec \"$@\"", "sh", *command],
                       env=ENVIRONMENT, stdin=subprocess.DEVNULL, check=True)

    def copy(self, source, target):
        """Copies like COPY: a file to a name or into a folder, a folder's contents into a folder."""
        path = self.root / target.lstrip("/")
        if source.is_dir():
            shutil.copytree(source, path, dirs_exist_ok=True, symlinks=True,
                            ignore=shutil.ignore_patterns(*ignored()))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, path / source.name if target.endswith("/") else path)


def ignored():
    return pathlib.Path(".dockerignore").read_text().split()


def carry_out(file, base, directory):
    stages = {}
    stage = None
    for keyword, argument in instructions(file):
        print(f"{keyword} {argument[:100]}", flush=True)
        if keyword == "FROM":
            image, _, name = re.fullmatch(r"(\S+)( AS (\S+))?", argument, re.IGNORECASE).groups()
            if image != "debian:12-slim":
                raise SystemExit(f"{file}: FROM {image}: only debian:12-slim can be tried")
            name = name or f"stage{len(stages)}"
            stage = stages[name] = Stage(directory / name, base)
        elif keyword == "COPY":
            *options, source, target = argument.split()
            start = stages[options[0].removeprefix("--from=")].root if options else pathlib.Path.cwd()
            stage.copy(start / source.lstrip("/"), target)
        elif keyword == "RUN":
            stage.run(["sh", "-c", argument])
        elif keyword == "WORKDIR":
            stage.workdir = argument
        elif keyword == "USER":
            stage.user = argument
        elif keyword == "ENTRYPOINT":
            stage.entry = json.loads(argument)
        elif keyword == "CMD":
            stage.arguments = json.loads(argument)
        elif keyword != "EXPOSE":
            raise SystemExit(f"{file}: {keyword} cannot be tried")
    stage.run([*stage.entry, *stage.arguments])
    data = stage.root / "data"
    data.mkdir()
    (data / "caption.txt").write_text("a caption")
    for command in (["keygen", "node"], ["make-shards", "/data", "shards"], ["check", "shards"],
                    ["data", "profile", "shards"]):
        stage.run([*stage.entry, *command])


def main():
    if len(sys.argv) != 3 or os.geteuid() != 0:
        raise SystemExit(__doc__)
    file, base = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory(dir="build") as directory:
        carry_out(file, base, pathlib.Path(directory))


if __name__ == "__main__":
    main()
