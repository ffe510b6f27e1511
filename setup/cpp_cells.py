#!/usr/bin/env python3
"""Builds copies of the C++ trainers against an installed Isocost, and trains an epoch with each: ./run test --cells
[WORD ...]. A cell is a trainer, a compiler, a libtorch and a standard; words take the cells that have them all in their
names.

    client       tests/install/text_client, which needs no libtorch
    trainers     examples/minimal_trainer and examples/distributed_trainer
    headers      only the public headers, with strict warnings as errors, libtorch's as system headers
    sanitized    the same trainers compiled with AddressSanitizer and UndefinedBehaviorSanitizer

Compilers are g++ 12, clang 16 and clang 19. libtorch is Debian's 1.13, or that of a wheel of torch 2: the one whose
folder ISOCOST_TORCH_ROOT names, or else the one of ./run test --torch2. A cell is skipped, with the reason, where its
compiler or the wheel is missing. Exit status: 1 if a cell fails, 77 if all are skipped.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "install"))

import outside  # noqa: E402
from outside import Compiler  # noqa: E402

BUILD = ROOT / "build" / "release"
DIRECTORY = ROOT / "build" / "cells"
COMPILERS = ("g++-12", "clang++-16", "clang++-19")
STANDARDS = (20, 23)
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g")
# Memory that libtorch keeps until the end is no leak of a trainer.
SANITIZER_OPTIONS = {"ASAN_OPTIONS": "detect_leaks=1", "LSAN_OPTIONS":
                     f"suppressions={ROOT / 'tests/lsan_suppressions.txt'}:print_suppressions=0"}
CLANG_AND_DEBIANS = "clang cannot parse torch/torch.h of libtorch 1.13 as C++20"
NO_WHEEL = 77


class Skipped(Exception):
    """A cell that this machine cannot try, with the reason."""


@dataclasses.dataclass
class Tree:
    """An installed Isocost, and how its trainers find libtorch."""

    prefix: pathlib.Path
    torch_includes: list = dataclasses.field(default_factory=list)  # flags


def install(build, prefix, *components):
    for component in components:
        outside.run("cmake", "--install", build, "--prefix", prefix, "--component", component)
    return prefix


def debians_tree():
    return Tree(install(BUILD, DIRECTORY / "prefix", "program", "development"),
                ["-isystem", "/usr/include/torch/csrc/api/include"])


def wheel():
    """The folder `torch` of an installed wheel."""
    if given := os.environ.get("ISOCOST_TORCH_ROOT"):
        return pathlib.Path(given)
    made = subprocess.run([ROOT / "setup" / "torch2_venv.sh"], stdout=subprocess.PIPE, text=True)
    if made.returncode == NO_WHEEL:
        raise Skipped("no package index answers, so there is no wheel of torch 2")
    if made.returncode:
        raise AssertionError("the virtual environment of torch 2 could not be made; pip says why above")
    return pathlib.Path(made.stdout.strip())


def wheels_tree():
    """Isocost built with the wheel. CMake installs nothing that names a folder of this tree, so the wheel gets a name
    outside."""
    folder = pathlib.Path(tempfile.gettempdir()) / f"isocost-cells-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    link = folder / "torch"
    link.unlink(missing_ok=True)
    link.symlink_to(wheel())
    build = DIRECTORY / "wheel"
    outside.run("cmake", "--preset", "release", "-B", build, "-DISOCOST_BUILD_TESTS=OFF", "-DISOCOST_BUILD_BENCH=OFF",
                "-DISOCOST_BUILD_PYTHON=OFF", "-DISOCOST_WERROR=OFF", f"-DISOCOST_TORCH_ROOT={link}", cwd=ROOT)
    subprocess.run(["cmake", "--build", build, "--parallel", os.environ.get("JOBS", str(os.cpu_count())), "--target",
                    "isocost_torch"], check=True, stdout=sys.stderr)
    return Tree(install(build, DIRECTORY / "wheel-prefix", "development"),
                ["-isystem", link / "include", "-isystem", link / "include/torch/csrc/api/include"])


class Trees:
    """Trees, each made when a cell first needs it; one that cannot be made skips or fails its cells."""

    def __init__(self):
        self.makers = {"debian": debians_tree, "wheel": wheels_tree}
        self.made = {}

    def get(self, name):
        if name not in self.made:
            try:
                self.made[name] = self.makers[name]()
            except (Skipped, AssertionError, subprocess.SubprocessError) as error:
                self.made[name] = error
        if isinstance(self.made[name], Exception):
            raise self.made[name]
        return self.made[name]


class Cells:
    """Runs the cells. A node of the installed program delivers an epoch to each trainer."""

    def __init__(self):
        self.trees = Trees()
        self.shards = None

    def train(self, trainer, *arguments):
        program = self.trees.get("debian").prefix / "bin/isocost"
        if self.shards is None:
            self.shards = outside.make_shards(program, DIRECTORY / "data")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **SANITIZER_OPTIONS}
        return outside.train(program, self.shards, trainer, *arguments, env=environment)

    def build(self, folder, tree, compiler, name):
        return outside.build(ROOT / folder, DIRECTORY / name.replace(" ", "-") / pathlib.Path(folder).name,
                             self.trees.get(tree).prefix, compiler)

    def client(self, tree, compiler, name):
        output = self.train(self.build("tests/install/text_client", tree, compiler, name), "ENDPOINT")
        if not output.startswith(f"{len(outside.TEXTS)} samples, "):
            raise AssertionError(f"the client printed {output}")

    def trainers(self, tree, compiler, name):
        steps = len(outside.TEXTS) // 8
        minimal = self.build("examples/minimal_trainer", tree, compiler, name)
        distributed = self.build("examples/distributed_trainer", tree, compiler, name)
        with tempfile.TemporaryDirectory(prefix="isocost-cells-") as temporary:
            store, checkpoint = (pathlib.Path(temporary) / part for part in ("ranks", "checkpoint.pt"))
            for output in (self.train(minimal, "--endpoint", "ENDPOINT"),
                           self.train(distributed, "--endpoint", "ENDPOINT", "--rank", 0, "--world-size", 1,
                                      "--store", store, "--checkpoint", checkpoint)):
                if len(output.splitlines()) != steps:
                    raise AssertionError(f"a trainer printed {output} instead of {steps} steps")

    def headers(self, tree, compiler, name, with_torch):
        made = self.trees.get(tree)
        includes = [f"-I{made.prefix / 'include'}", *(made.torch_includes if with_torch else [])]
        for header in outside.TORCH_HEADERS if with_torch else outside.HEADERS:
            outside.compile_header(header, DIRECTORY / name.replace(" ", "-"), compiler, includes)


@dataclasses.dataclass
class Cell:
    name: str
    compiler: str
    run: Callable[[], None]


def all_cells():
    cells, does = [], Cells()

    def add(what, of, tree, compiler, action, *more):
        name = f"{what} {compiler.name} {of} C++{compiler.standard}"
        cells.append(Cell(name, compiler.name, lambda: action(tree, compiler, name, *more)))

    def no_clang(tree, compiler, name, *_):
        raise Skipped(CLANG_AND_DEBIANS)

    for standard in STANDARDS:
        for command in COMPILERS:
            compiler = Compiler(command, standard)
            with_debians = no_clang if command.startswith("clang") else does.trainers
            add("client", "no-torch", "debian", compiler, does.client)
            add("headers", "no-torch", "debian", compiler, does.headers, False)
            add("trainers", "torch-1.13", "debian", compiler, with_debians)
            add("headers", "torch-1.13", "debian", compiler, does.headers, True)
            add("trainers", "torch-2", "wheel", compiler, does.trainers)
            add("headers", "torch-2", "wheel", compiler, does.headers, True)
    for command in COMPILERS:
        add("sanitized client", "no-torch", "debian", Compiler(command, 20, SANITIZE), does.client)
    add("sanitized trainers", "torch-1.13", "debian", Compiler("g++-12", 20, SANITIZE), does.trainers)
    add("sanitized trainers", "torch-2", "wheel", Compiler("g++-12", 20, SANITIZE), does.trainers)
    return cells


def outcome_of(cell):
    """(passed, skipped or FAILED; the reason)."""
    if shutil.which(cell.compiler) is None:
        return "skipped", f"{cell.compiler} is not installed"
    try:
        cell.run()
    except Skipped as reason:
        return "skipped", str(reason)
    except (AssertionError, subprocess.SubprocessError) as error:
        print(str(error)[-6000:], file=sys.stderr)
        return "FAILED", "see above"
    return "passed", ""


def main():
    words = sys.argv[1:]
    cells = [cell for cell in all_cells() if all(word in cell.name.split() for word in words)]
    if not cells:
        print(f"no cell has the words {' '.join(words)}: {', '.join(cell.name for cell in all_cells())}",
              file=sys.stderr)
        return 2
    for made in DIRECTORY.glob("*"):
        if made.name != "wheel":  # which takes minutes to build
            shutil.rmtree(made)
    outcomes = []
    for cell in cells:
        begun = time.monotonic()
        outcome, reason = outcome_of(cell)
        outcomes.append(outcome)
        print(f"{outcome:8}{time.monotonic() - begun:5.0f} s  {cell.name}{': ' if reason else ''}{reason}", flush=True)
    print(", ".join(f"{outcomes.count(each)} {each}" for each in ("passed", "skipped", "FAILED")))
    if "FAILED" in outcomes:
        return 1
    return 0 if "passed" in outcomes else 77


if __name__ == "__main__":
    sys.exit(main())
