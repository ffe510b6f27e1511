"""Runs the commands of README, docs/ and --help from an installed tree, and compares the output that they show with
what is printed. blocks.py lists the marks by which a page leaves a block out.

Environment: ISOCOST_BUILD is the build tree that is installed; with ISOCOST_PREFIX, a tree that is installed already is
taken.
"""

import fcntl
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["ISOCOST_BUILD"])
TIMEOUT = 120
# A user's own, strict ones: no header of ours may break them.
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
PAGES = ["README.md", "examples/README.md",
         *sorted(str(file.relative_to(ROOT)) for where in ("docs", "docs/models")
                 for file in ROOT.glob(f"{where}/*.md"))]
COMMANDS = {"isocost": ["serve", "index", "check", "make-shards", "tokenize", "keygen", "cache ls", "cache rm",
                        "cache verify", "data ls", "data mixture",
                        "data profile", "data show", "data step", "model profile", "predict", "plan",
                        "layout fingerprint", "layout receiver", "top"],
            "isocost-lab": ["simulate", "balance", "emulate"]}

# Examples of --help that do not run, or only with these modules, by how they begin; --help has no room for marks.
HELP_LEFT_OUT = {
    "isocost model profile": "minutes",
    "build/release/isocost model profile": "minutes",
    "isocost plan --gpus 1024": "minutes",
    "isocost plan --model DIR": "gpu",
    "isocost-lab emulate": "minutes",  # it takes as long as what it emulates
    "ssh ": "cluster",
    "isocost cache": "network",  # what a server sent
    "isocost top --json | jq": "network",  # jq is no package that the build needs
    "isocost make-shards data/*.parquet": "network",  # nor is pyarrow, which writes such files and reads them
}
HELP_WITH_MODULES = ("isocost tokenize", "isocost predict --data data/shards --model DIR",
                     "isocost data ls data/shards --model DIR", "isocost data show data/shards 000007 --model DIR")
# Text to replace: by a search that takes less time, and by a folder that the test may make.
OTHERWISE = {"isocost plan": "isocost plan --evaluations 100 --batches 1", "/fast/": "fast/"}
# Files that commands make without --output.
MADE = {"isocost plan": ["layout.json", "layout_fsdp2.py", "layout_megatron.sh"],
        "isocost keygen node": ["node.secret", "node.public"]}


def alone_on_the_network():
    """Starts this test again in a network of its own, if it can: the pages' ports are free there, and no command
    reaches another host."""
    command = ["unshare", "--map-root-user", "--net"]
    if "ISOCOST_DOCS_NETWORK" in os.environ:
        with socket.socket() as any_socket:  # the loopback device is down at first
            fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
    elif subprocess.run([*command, "true"], capture_output=True).returncode == 0:
        os.environ["ISOCOST_DOCS_NETWORK"] = "own"
        os.execvp(command[0], [*command, sys.executable, *sys.argv])


class Reader:
    """Runs the blocks of a page in a directory of its own, as a reader would."""

    def __init__(self, directory, prefix):
        self.directory = directory
        self.prefix = prefix
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self.environment = {**environment, "HOME": str(directory / "home"), "PYTHONDONTWRITEBYTECODE": "1",
                            "PATH": f"{prefix}/bin:{directory}/bin:{environment['PATH']}"}
        self.node = None
        self.others = []  # commands in the background
        self.trained = False  # whether a trainer was run beside the node

    def do(self, block):
        """Runs a block, or compares it with what its command prints. Raises AssertionError, with what was printed, if a
        command fails or something differs."""
        if block.lines_of:
            self.check_lines(block)
            return
        if block.beside:
            self.command(block.beside)
        if block.output_of or block.words_of:
            self.check_printed(block)
            return
        {"sh": self.shell, "python": self.python, "cpp": self.compile, "cmake": self.find, "json": self.read_json,
         "toml": self.configure, "diff": self.compare, "yaml": lambda _: None,
         "text": lambda _: None}[block.language](block)

    def run(self, *words, **options):
        done = subprocess.run([str(word) for word in words], cwd=self.directory, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT, env={**self.environment, **options},
                              stdin=subprocess.DEVNULL)
        if done.returncode:
            raise AssertionError(f"{' '.join(map(str, words))}: status {done.returncode}\n{done.stdout}")
        return done.stdout

    def command(self, line):
        """The output of one line. A node that it starts serves until the next node, or the end of the block."""
        words, background = blocks.words_of(line)
        self.clear(words)
        if re.search(r"\bisocost$", words[0]) and words[1:2] == ["serve"]:
            return self.serve(words)
        if background:
            self.others.append((line, self.start(words)))
            return ""
        self.trained = self.trained or "_trainer" in words[0]
        for shown, other in OTHERWISE.items():
            line = line.replace(shown, other)
        return self.run("bash", "-o", "pipefail", "-c", line)

    def clear(self, words):
        """Removes what a command is to make, and what an earlier block may have made."""
        made = [words[i + 1] for i, word in enumerate(words[:-1]) if word in ("--output", "--html", "--svg")]
        if words[1:2] == ["make-shards"]:
            made.append(words[3])
        made += [name for command, names in MADE.items() if command in " ".join(words) for name in names]
        for name in made:
            path = self.directory / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def start(self, words):
        out = tempfile.TemporaryFile("w+")
        process = subprocess.Popen(words, cwd=self.directory, stdout=out, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, env=self.environment)
        process.out = out
        return process

    def serve(self, words):
        self.end_node()
        self.trained = False
        self.node = (" ".join(words), self.start(words))
        end = time.monotonic() + TIMEOUT
        while "listening on " not in (said := self.said(self.node[1])):
            if self.node[1].poll() is not None or time.monotonic() > end:
                self.stop()
                raise AssertionError(f"{' '.join(words)}: it does not listen\n{said}")
            time.sleep(0.02)
        return said

    @staticmethod
    def said(process):
        process.out.seek(0)
        return process.out.read()

    def end_node(self, trained=False):
        """Ends a node as its user does, where somebody trained: alone, it would wait a while for its ranks."""
        if self.node is None:
            return
        (line, node), self.node = self.node, None
        if node.poll() is None:
            node.send_signal(signal.SIGINT if trained else signal.SIGKILL)
        status, said = node.wait(TIMEOUT), self.said(node)
        node.out.close()
        if status not in (0, -signal.SIGKILL):
            raise AssertionError(f"{line}: status {status}\n{said}")

    def end_block(self):
        for line, process in self.others:
            if process.wait(TIMEOUT):
                raise AssertionError(f"{line}: status {process.returncode}\n{self.said(process)}")
            process.out.close()
        trained = bool(self.others) or self.trained
        self.others.clear()
        self.end_node(trained)

    def stop(self):
        """Ends what still runs."""
        for _, process in [*self.others, *([self.node] if self.node else [])]:
            process.kill()
            process.wait()
            process.out.close()
        self.others, self.node = [], None

    def shell(self, block):
        for line in blocks.commands_of(block.text):
            self.command(line)
        self.end_block()

    def python(self, block):
        taken = "model_prelude" if "transformers" in block.modules else "prelude"
        prelude = f"import sys\nsys.path.insert(0, {str(HERE)!r})\nfrom {taken} import *\n"
        self.run(sys.executable, "-c", prelude + block.text, PYTHONPATH=str(self.prefix / "lib/python3/dist-packages"))

    def compile(self, block):
        file = self.directory / "block.cc"
        file.write_text(block.text)
        compiler, *flags = outside_flags("tests/trainer_adapter/torch/torch_loader_test.cc")
        self.run(compiler, *flags, *WARNINGS, "-fsyntax-only", f"-I{self.prefix}/include", file)

    def find(self, block):
        """Configures a project whose program `trainer` has these lines."""
        project = self.directory / "cmake"
        project.mkdir(exist_ok=True)
        (project / "main.cc").write_text("int main() {}\n")
        (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.22)\nproject(trainer CXX)\n"
                                                "add_executable(trainer main.cc)\n" + block.text)
        self.run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")

    def read_json(self, block):
        if not block.records:
            json.loads(block.text)
            return
        (self.directory / "records.jsonl").write_text(
            "".join(json.dumps(record) + "\n" for record in blocks.records_of(block.text)))
        self.command("isocost make-shards records.jsonl data/records")

    def configure(self, block):
        (self.directory / "node.toml").write_text(block.text)
        self.command("isocost serve --config node.toml")
        self.end_block()

    def compare(self, block):
        for sign, name in zip("-+", block.diff_of):
            lines = (ROOT / name).read_text().splitlines()
            if missing := [line for line in block.text.splitlines() if line[:1] == sign and line[1:] not in lines]:
                raise AssertionError(f"{name} has no line " + "\n".join(missing))

    def check_lines(self, block):
        """The block may be indented in another way than in its file."""
        shown, lines = ("\n".join(line.strip() for line in text.splitlines())
                        for text in (block.text, (ROOT / block.lines_of).read_text()))
        if shown not in lines:
            raise AssertionError(f"{block.lines_of} has not these lines")

    def check_printed(self, block):
        printed = self.command(block.output_of or block.words_of)
        self.end_block()
        if block.output_of:
            lines = iter(printed.splitlines())
            wrong = [line for line in block.text.splitlines() if not fits(line, lines)][:1]
        else:
            shown, said = blocks.plain_words(block.text), blocks.plain_words(printed)
            wrong = [] if shown == said else [" ".join(shown)]
        if wrong:
            raise AssertionError("the page shows\n" + "\n".join(wrong) + f"\nbut it prints\n{printed}")


def fits(shown, printed):
    """Whether a line of a page, in which "..." means anything, is the next of the printed lines that begins like
    it. Takes those up to that one."""
    start, *others = (part.strip() for part in shown.rstrip().split("..."))
    if not others:
        return any(line.rstrip() == shown.rstrip() for line in printed)
    found = next((line for line in printed if line.startswith(start)), None)
    return found is not None and re.fullmatch(".*".join(map(re.escape, [start, *others])), found.rstrip()) is not None


def outside_flags(source):
    """The compiler of a file of this tree, and its flags that say nothing of this tree."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    words = next(shlex.split(entry["command"]) for entry in commands if entry["file"] == str(ROOT / source))
    compiler = next(word for word in words if not word.endswith("ccache"))
    kept = []
    for word, value in zip(words, words[1:]):
        if word == "-isystem":
            kept += [word, value]
        elif word.startswith(("-std=", "-D", "-I")) and str(ROOT) not in word:
            kept.append(word)
    return [compiler, *kept]


def installed(*modules):
    return all(map(importlib.util.find_spec, modules))


class Documentation(unittest.TestCase):
    """Runs blocks in a directory that all blocks of one page share."""

    components = ("program", "python", "development")

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-docs-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.prefix = pathlib.Path(os.environ.get("ISOCOST_PREFIX", cls.directory / "prefix"))
        if not cls.prefix.exists():
            for component in cls.components:
                subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix, "--component", component],
                               check=True, capture_output=True)
        os.environ["ISOCOST_PROGRAM"] = str(cls.prefix / "bin/isocost")
        import reader_directory

        cls.prepared = cls.directory / "prepared"
        reader_directory.make(cls.prepared, cls.prefix, BUILD)

    def run_blocks(self, found):
        copy = pathlib.Path(tempfile.mkdtemp(dir=self.directory)) / "reader"
        shutil.copytree(self.prepared, copy, symlinks=True)
        reader = Reader(copy, self.prefix)
        self.addCleanup(reader.stop)
        for block in found:
            with self.subTest(block.place):
                started = time.monotonic()
                if missing := [name for name in block.modules if not installed(name)]:
                    self.skipTest(f"{block.place}: {', '.join(missing)} is not installed: ./run test --torch2 has it")
                try:
                    reader.do(block)
                finally:
                    reader.stop()
                    if "ISOCOST_DOCS_TIMES" in os.environ:
                        print(f"{time.monotonic() - started:6.1f} s {block.place}", flush=True)


class Pages(Documentation):
    """Each page, except for the blocks that need more than Debian's Python has."""


class WithModules(Documentation):
    """The blocks of each page that need modules which Debian does not have. The data set is conversations."""

    components = ("program", "python")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if installed("tokenizers", "jinja2"):
            import reader_directory

            reader_directory.add_model(cls.prepared, cls.prefix, weights=installed("torch", "transformers"))

    def test_examples_of_help(self):
        for block in help_blocks(self.prefix, True):
            self.run_blocks([block])


def check_outputs(found):
    """Raises ValueError unless each command of a block that is left out for its output has a block below with it."""
    for at, block in enumerate(found):
        commands = block.text.replace("\\\n", " ").splitlines() if block.left_out == "output" else []
        below = {" ".join((other.output_of or other.words_of).split()) for other in found[at:]}
        for command in commands:
            if " ".join(command.split()) not in below:
                raise ValueError(f"{block.place}: no block below is the output of '{command}'")


def add_page(name):
    found = blocks.blocks_of(name, (ROOT / name).read_text(encoding="utf-8"))
    check_outputs(found)
    plain = [block for block in found if not block.left_out and not block.modules]
    others = [block for block in found if block.modules]
    test = "test_" + re.sub(r"\W", "_", name)
    if plain:
        setattr(Pages, test, lambda self: self.run_blocks(plain))
    if others:
        setattr(WithModules, test, lambda self: self.run_blocks(others))


def help_blocks(prefix, with_modules):
    """A block for each command: the examples of its --help that run without, or with, more modules."""
    found = []
    for program, names in COMMANDS.items():
        for name in names:
            shown = subprocess.run([prefix / "bin" / program, *name.split(), "--help"], capture_output=True, text=True,
                                   check=True, timeout=TIMEOUT).stdout
            examples = [line for line in blocks.examples_of(f"{program} {name}", shown)
                        if not line.startswith(tuple(HELP_LEFT_OUT))
                        and line.startswith(HELP_WITH_MODULES) == with_modules]
            modules = ("tokenizers", "jinja2") if with_modules else ()
            if examples:
                found.append(blocks.Block(f"{program} {name} --help", "sh", "\n".join(examples), modules=modules))
    return found


class Names(unittest.TestCase):
    """The names in the prose of pages."""

    def test_files_and_benchmarks_exist(self):
        folders = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
        benchmarks = {path.stem for path in (ROOT / "bench").rglob("*")}
        for page in PAGES:
            text = (ROOT / page).read_text(encoding="utf-8")
            for name in re.findall(rf"`((?:{folders})/[\w./]+)`", text):
                if not name.startswith("build/"):
                    self.assertTrue([*ROOT.glob(name + "*")], f"{page}: {name}")
            self.assertLessEqual(set(re.findall(r"\./run bench ([a-z]\w+)", text)), benchmarks, page)


class Help(Documentation):
    """The commands, and the examples of --help."""

    def test_commands_are_those_of_the_page(self):
        """docs/commands.md has each command, by its name or after one of the same program."""
        rows = [line.split("|")[1] for line in (ROOT / "docs/commands.md").read_text().splitlines()
                if line.startswith("| `isocost")]
        names = [re.sub(r"^isocost(-lab)? ", "", name) for row in rows for name in re.findall(r"`([^`]+)`", row)]
        self.assertEqual(sorted(names), sorted(sum(COMMANDS.values(), [])))

    def test_examples(self):
        for block in help_blocks(self.prefix, False):
            self.run_blocks([block])


sys.path.append(str(HERE))

import blocks  # noqa: E402

if __name__ == "__main__":
    alone_on_the_network()
    for page in PAGES:
        add_page(page)
    result = unittest.main(exit=False).result
    for _, reason in result.skipped:
        print(f"skipped: {reason}", file=sys.stderr)
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
