"""Figures in the documentation are those that their commands print, copies are those of the page that they come from,
and measured ones say when, how and on what. figures.py lists the marks.

Environment: ISOCOST_BUILD is the build tree whose programs run; with ISOCOST_FIGURES=all also those rows of tables that
take minutes.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["ISOCOST_BUILD"])
ALL = os.environ.get("ISOCOST_FIGURES") == "all"
TIMEOUT = 600 if ALL else 120
FILES = [file.relative_to(ROOT) for depth in range(4) for file in ROOT.glob("*/" * depth + "*.md")]
# A decision says what was known on its day.
PAGES = sorted(str(file) for file in FILES
               if file.parts[0] not in ("build", "shared", "CHANGELOG.md") and "decisions" not in file.parts)
CANNOT_RUN = 77

sys.path.append(str(HERE))

import figures  # noqa: E402


class CannotRunError(Exception):
    """A command that needs what this machine lacks."""


class Figures(unittest.TestCase):
    """Each page: a test made by add_page."""

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-figures-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        (cls.directory / "build").mkdir()
        (cls.directory / "build/release").symlink_to(BUILD)
        for name in ("bench", "docs", "setup", "tests", "trainer_adapter"):
            (cls.directory / name).symlink_to(ROOT / name)
        for trace in (ROOT / "bench/quality/data").glob("*.csv"):
            shutil.copy(trace, cls.directory)
        cls.printed = {}

    def output(self, command):
        """Returns the output of a command, whatever pages ask for it."""
        if not ALL:
            command = command.replace(" --all", "")
        if command not in self.printed:
            started = time.monotonic()
            environment = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.directory, text=True,
                                  capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT, env=environment)
            if done.returncode == CANNOT_RUN:
                raise CannotRunError(f"{command}: {done.stderr.strip()}")
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
            if "ISOCOST_DOCS_TIMES" in os.environ:
                print(f"{time.monotonic() - started:6.1f} s {command}", flush=True)
            self.printed[command] = done.stdout
        return self.printed[command]

    def check(self, mark):
        checks = {"table of": self.check_table_of, "figures of": self.check_figures_of, "table in": self.check_table_in,
                  "figures in": self.check_figures_in, "measured": self.check_measured}
        if mark.kind in checks:
            checks[mark.kind](mark)

    def check_table_of(self, mark):
        """The printed rows are those of the page; without the rows that take long, some of them in their order."""
        shown, printed = figures.table_of(mark.text), figures.table_of(self.output(mark.argument))
        self.assertLessEqual(set(printed[0]), set(shown[0]), "a column that is printed is not on the page")
        _, page, own = figures.shared_columns(shown, printed)
        if ALL or " --all" not in mark.argument:
            self.assertEqual(page, own)
        rest = iter(page)
        for row in own:
            self.assertTrue(any(row == other for other in rest), f"it prints {row}, and the page has\n{page}")

    def check_figures_of(self, mark):
        command, expected = figures.expectations(mark.argument)
        if " --all" in command and not ALL:
            return
        output = self.output(command)
        for figure, tolerance, words, number in expected:
            self.assertTrue(figures.has_figure(mark.text, figure), f"{figure} is not on the page:\n{mark.text}")
            printed = figures.printed_number(output, words, number)
            self.assertIsNotNone(printed, f"no number {number} in a line that begins with '{words}':\n{output}")
            self.assertTrue(figures.rounds_to(printed, figure, tolerance),
                            f"{figure} on the page, {printed} in\n{output}")

    def check_table_in(self, mark):
        shown = figures.table_of(mark.text)
        best = max(figures.tables_of((ROOT / mark.argument).read_text(encoding="utf-8")),
                   key=lambda table: len(set(table[0]) & set(shown[0])))
        names, page, source = figures.shared_columns(shown, best)
        self.assertGreater(len(names), 1, f"{mark.argument} has no such table")
        for row in page:
            self.assertIn(row, source)

    def check_figures_in(self, mark):
        file, _, listed = mark.argument.partition(": ")
        source = (ROOT / file).read_text(encoding="utf-8")
        for figure in re.split(r",\s+", listed):
            self.assertTrue(figures.has_figure(mark.text, figure), f"{figure} is not on the page:\n{mark.text}")
            self.assertTrue(figures.has_figure(source, figure), f"{figure} is not in {file}")

    def check_measured(self, mark):
        words = mark.argument.split("; ")
        self.assertEqual(len(words), 3, "a mark `measured` gives date, command and hardware")
        section = " ".join(mark.section.split())
        for what, word in zip(("date", "command", "hardware"), words):
            self.assertIn(word, section, f"the section does not say the {what}")

    def test_each_table_and_paragraph_of_figures_says_where_they_come_from(self):
        bare = [place for page in PAGES for place in read_marks(page)[1]]
        self.assertEqual(bare, [], "no mark of figures.py before them")


def read_marks(page):
    return figures.marks_of(page, (ROOT / page).read_text(encoding="utf-8"))


def add_page(page):
    def test(self):
        for mark in read_marks(page)[0]:
            with self.subTest(mark.place):
                try:
                    self.check(mark)
                except CannotRunError as why:
                    self.skipTest(f"{mark.place}: {why}")

    setattr(Figures, "test_" + re.sub(r"\W", "_", page), test)


if __name__ == "__main__":
    for page in PAGES:
        if read_marks(page)[0]:
            add_page(page)
    result = unittest.main(exit=False).result
    for _, reason in result.skipped:
        print(f"skipped: {reason}", file=sys.stderr)
    sys.exit(1 if not result.wasSuccessful() else CANNOT_RUN if result.skipped else 0)
