"""The sweeps of files of others share this: finding files, a program that reads one after another, and the table."""

import collections
import subprocess

COLUMNS = ("equal", "differ", "refused by both", "refused here alone", "read here alone")
LARGEST = 64 << 20  # bytes of a file


def files(folders, kind_of_head):
    """Yields (path, kind) of each file below the folders whose first bytes, 600 at most, have a kind."""
    for folder in folders:
        for path in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST:
                kind = kind_of_head(head_of(path))
                if kind:
                    yield path, kind


def head_of(path):
    try:
        with path.open("rb") as file:
            return file.read(600)
    except OSError:
        return b""


class Refused(Exception):
    """The program refused the file, or ended; the message says which."""


class Program:
    """A process that decodes one file after another, and is started again after one that ends it. It reads paths, and
    answers with lines "VERDICT REST", some of which bytes follow."""

    def __init__(self, program):
        self.program = program
        self.process = None

    def send(self, path):
        if self.process is None:
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL)
        self.process.stdin.write(bytes(path) + b"\n")
        self.process.stdin.flush()

    def line(self):
        """Returns the verdict and the rest of the next line. Raises Refused."""
        line = self.process.stdout.readline().decode(errors="replace").rstrip("\n")
        if not line:
            raise Refused(f"CRASHED with status {self.close()}")
        verdict, _, rest = line.partition(" ")
        if verdict == "refused":
            raise Refused(rest)
        return verdict, rest

    def read(self, size):
        return self.process.stdout.read(size)

    def close(self):
        """Returns the program's status, or None if it does not run."""
        if self.process is None:
            return None
        self.process.stdin.close()
        self.process.stdout.close()
        status = self.process.wait(timeout=60)
        self.process = None
        return status


class Table:
    """Counts of files by kind and column, and what was said of those that are not equal."""

    def __init__(self):
        self.counts = collections.defaultdict(collections.Counter)
        self.remarks = []

    def add(self, path, kind, column, remark):
        self.counts[kind][column] += 1
        if column != "equal" or remark:
            self.remarks.append(f"{column}: {path}: {remark}")

    def row(self, kind, counts):
        return f"| {kind} | {sum(counts.values())} | {' | '.join(str(counts[column]) for column in COLUMNS)} |"

    def show(self, faults):
        """Prints the table and the remarks. Returns the status: 1 if a remark holds one of these words."""
        print(f"| kind | files | {' | '.join(COLUMNS)} |")
        print("|---|" + "---|" * (len(COLUMNS) + 1))
        for kind, counts in sorted(self.counts.items()):
            print(self.row(kind, counts))
        print(self.row("all", sum(self.counts.values(), collections.Counter())) + "\n")
        print("\n".join(sorted(self.remarks)))
        return 1 if any(word in remark for word in faults for remark in self.remarks) else 0
