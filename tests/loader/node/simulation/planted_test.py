"""Faults that are planted in the machines, one by one: the simulation finds each within its first seeds."""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[4]
HERE = pathlib.Path("tests/loader/node/simulation")
QUEUE = "loader/node/internal/delivery_queue.cc"
# One unit, so that nothing of the unchanged machines is inlined.
SOURCES = ["transport/protocol/coordinator.cc", "transport/protocol/rank_holders.cc",
           "loader/node/internal/job.cc", "loader/node/internal/join.cc", "loader/node/internal/served_jobs.cc", QUEUE,
           HERE / "rank_process.cc", HERE / "node_process.cc", HERE / "simulation.cc", HERE / "simulation_test.cc"]
SEEDS = 30_000
TIMEOUT = 600

# Name: file, text there, and what stands there instead.
FAULTS = {
    "the end of a connection overtakes its bytes": (
        HERE / "node_process.cc", "!network_.all_read(address) && network_.take_at_node(address, message);", "false;"),
    "a job begins once everything is trained": (
        "loader/node/internal/served_jobs.cc", "if (trained || (job_ && job_->queue().finished())) {", "if (false) {"),
    "a late rank repeats a step without the others": (
        "loader/node/internal/join.cc", "return job.joined_before(rank) || job.any_gave_up();", "return true;"),
    "the last end is not told to a client that joins again": (
        QUEUE, "    state.needs_end = true;\n    state.credit", "    state.credit"),
    "a client is told the end of its predecessor's epoch": (
        QUEUE, "if (!rank.fresh || !rank.acknowledged) return;", "return;"),
    "a second client of a rank is let in": (
        "transport/protocol/rank_holders.cc",
        "return address_of(hello.rank) != nullptr && !is_same_client(hello);", "return false;"),
    "an end counts as received once it was sent": (
        QUEUE, "return rank.acknowledged->epoch > entry.end.epoch;", "return rank.entry > number;"),
    "a client comes back to a rank that another one has had": (
        "loader/node/internal/join.cc", "if (hello.job != 0 && !same_client) {", "if (false) {"),
    "credit of an older session counts": (
        "transport/protocol/coordinator.cc", "if (credit->session != session) return std::nullopt;", ""),
    "a client that joins again continues where it was sent": (
        QUEUE, "seek_after(static_cast<std::size_t>(rank), after);", "seek_after(static_cast<std::size_t>(rank), "
                                                                      "state.sent);"),
    "a job begins beside clients of the one before": (
        "loader/node/internal/served_jobs.cc", "if (job_ && !alone) {", "if (false) {"),
    "messages of an older session are sent": (
        "transport/protocol/coordinator.cc",
        "if (session != 0 && session != holders_.session_of(rank)) return nullptr;", ""),
}


def build_command(build):
    """The compiler with its flags, and the libraries."""
    commands = json.loads((build / "compile_commands.json").read_text())
    compile_line = next(c["command"] for c in commands if c["file"].endswith("simulation_test.cc"))
    words = [word for word in compile_line.replace('\\"', '"').split()
             if re.match(r"-(std=|W|f|D|I|isystem)", word) and not word.startswith("-Werror")]
    link = subprocess.run(["ninja", "-t", "commands", "tests/simulation_test"], cwd=build, stdout=subprocess.PIPE,
                          text=True, check=True).stdout.splitlines()[-1]
    libraries = link.split(" tests/simulation_test ", 1)[1].split(" && ")[0].split()
    return words, libraries


class Planted(unittest.TestCase):
    def setUp(self):
        self.build = pathlib.Path(sys.argv[1]).resolve()
        self.compiler = os.environ.get("CXX", "c++")
        self.flags, self.libraries = build_command(self.build)

    def seed_of(self, directory, file=None, text="", instead=""):
        """Builds the simulation with a change, and returns the first seed that fails; None if none does."""
        if file is not None:
            source = (ROOT / file).read_text()
            self.assertEqual(source.count(text), 1, f"{file} has not one '{text}': the fault must be planted anew")
            (directory / file).parent.mkdir(parents=True)
            (directory / file).write_text(source.replace(text, instead))
        unit = directory / "unit.cc"
        unit.write_text("".join(f'#include "{source}"\n' for source in SOURCES))
        program = directory / "simulation_test"
        subprocess.run([self.compiler, f"-I{directory}", *self.flags, "-O1", "-w", "-o", program, unit,
                        "-Wl,--allow-multiple-definition", *self.libraries],
                       cwd=self.build, check=True, timeout=TIMEOUT)
        run = subprocess.run([program], env=os.environ | {"ISOCOST_SEEDS": str(SEEDS)}, capture_output=True, text=True,
                             timeout=TIMEOUT, check=False)
        found = re.search(r"^seed (\d+)", run.stdout, re.MULTILINE)
        self.assertEqual(run.returncode != 0, found is not None, run.stdout[-2000:])
        return found and int(found[1])

    def test_the_simulation_finds_each_fault(self):
        with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
            def plant(fault):
                name, change = fault
                directory = pathlib.Path(scratch) / re.sub(r"\W", "_", name)
                directory.mkdir()
                return name, self.seed_of(directory, *change)

            seeds = dict(pool.map(plant, {"none": (), **FAULTS}.items()))
        for name, seed in seeds.items():
            print(f"{name}: seed {seed}", flush=True)
        self.assertIsNone(seeds.pop("none"))
        self.assertEqual([name for name, seed in seeds.items() if seed is None], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
