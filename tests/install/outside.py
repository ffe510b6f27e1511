"""Trainers in trees of their own: an installed Isocost, projects that are copied away from this tree and built against
it, and an epoch from the installed program."""

import dataclasses
import pathlib
import shutil
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT = 240
BUILD_TIMEOUT = 900  # a file that includes torch/torch.h takes minutes under sanitizers
TEXTS = ["a caption", "a longer caption than the first", "one", "two words"] * 4
# The public headers that need no libtorch, and those that do.
HEADERS = ("client", "layout", "normalise", "own_work", "replicas", "state", "base/result", "base/tensor")
TORCH_HEADERS = ("torch_loader", "torch_microbatch", "torch_profiler")
STRICT = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


def run(*command, timeout=TIMEOUT, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout, **options)
    if done.returncode:
        raise AssertionError(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@dataclasses.dataclass(frozen=True)
class Compiler:
    """How a user compiles; the defaults are CMake's."""

    name: str = "c++"
    standard: int = 20
    flags: tuple = ()


def build(folder, copy, prefix, compiler=None):
    """Copies the project `folder` to `copy`, and builds it against `prefix`. Returns its program."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    options = [f"-DCMAKE_PREFIX_PATH={prefix}"]
    if launcher := shutil.which("ccache"):
        options.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}")
    if compiler:
        options += [f"-DCMAKE_CXX_COMPILER={compiler.name}", f"-DCMAKE_CXX_STANDARD={compiler.standard}",
                    f"-DCMAKE_CXX_FLAGS={' '.join(compiler.flags)}"]
    run("cmake", "-S", copy, "-B", copy / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *options)
    run("cmake", "--build", copy / "build", timeout=BUILD_TIMEOUT)
    return copy / "build" / folder.name


def compile_header(name, directory, compiler, flags):
    """Compiles a public header twice in a row and alone, without a warning, beside a header of the user's own whose
    name is that of one of ours."""
    own = directory / "own/base"
    own.mkdir(parents=True, exist_ok=True)
    (own / "log.h").write_text('#error "a user\'s own header"\n')
    file = directory / "one.cc"
    file.write_text(f"#include <isocost/{name}.h>\n#include <isocost/{name}.h>\nint main() {{}}\n")
    standard = {23: "2b"}.get(compiler.standard, compiler.standard)  # clang 16 does not know c++23 by that name
    run(compiler.name, f"-std=c++{standard}", *STRICT, f"-I{own.parent}", *flags, file)


def make_shards(program, directory):
    """Writes TEXTS as a data set below `directory`. Returns its folder."""
    files = directory / "files"
    files.mkdir(parents=True)
    for number, text in enumerate(TEXTS):
        (files / f"{number:04}.txt").write_text(text)
    run(program, "make-shards", files, directory / "shards")
    return directory / "shards"


def train(program, shards, trainer, *arguments, **options):
    """The output of `trainer`, which takes one epoch from a node of `program`; ENDPOINT among its arguments becomes the
    node's."""
    node = subprocess.Popen(
        [str(part) for part in (program, "serve", "--data", shards, "--ranks", 1, "--microbatches", 2,
                                "--global-batch-size", 8, "--epochs", 1, "--bind", "tcp://127.0.0.1:*")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        endpoint = next(line.split()[-1] for line in node.stdout if line.startswith("listening on "))
        output = run(trainer, *[endpoint if part == "ENDPOINT" else str(part) for part in arguments], **options)
        status = node.wait(TIMEOUT)
        if status != 0:
            raise AssertionError(f"the node ended with status {status}: {node.stdout.read()}")
        return output
    finally:
        node.kill()
        node.wait()
        node.stdout.close()
