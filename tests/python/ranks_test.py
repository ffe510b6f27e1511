"""Ranks find their number or end with an error: torchrun, srun's and Open MPI's variables, and processes
that a framework launches after the loader was made."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import unittest
import unittest.mock

import torch

import isocost
from isocost.rendezvous.launcher import launched
from support import SAMPLES, TIMEOUT, ShardTest, main

NAMES = ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK",
         "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE")
# Prints what this rank trains on.
TRAIN = """
import json, os, sys, isocost
with isocost.DataLoader(sys.argv[1], global_batch_size=16, microbatches=2) as loader:
    ids = [sample for each in loader for sample, weight in zip(each.sample_ids, each.sample_weights) if weight]
    print(json.dumps([loader.rank, loader.world_size, ids]), flush=True)
"""
# Each process makes its loader, and joins the process group after that, as under Lightning's launcher.
LATE = """
import sys, torch, isocost
rank, rendezvous, numbers = int(sys.argv[2]), sys.argv[3], eval(sys.argv[4])
with isocost.DataLoader(sys.argv[1], global_batch_size=16, microbatches=2, **numbers) as loader:
    torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    try:
        next(iter(loader))
        print("trains", flush=True)
    except ValueError as error:
        print(error, flush=True)
    torch.distributed.barrier()
"""


def environment(**given):
    clean = {name: value for name, value in os.environ.items() if name not in NAMES}
    return {**clean, **given}


def free_port():
    """A port that is free, and the next one, too, at which a loader's store listens."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


class Variables(unittest.TestCase):
    def found(self, **given):
        with unittest.mock.patch.dict(os.environ, environment(**given), clear=True):
            return launched()

    def test_the_first_launcher_that_says_it_counts(self):
        slurm = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "4"}
        mpi = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6"}
        self.assertIsNone(self.found())
        self.assertEqual(self.found(RANK="1", WORLD_SIZE="2", **slurm, **mpi)[:2], (1, 2))
        self.assertEqual(self.found(**slurm)[:2], (3, 4))
        # An mpirun within a step of SLURM, or over hosts, is the launcher that knows.
        self.assertEqual(self.found(**slurm, **mpi)[:2], (5, 6))
        self.assertEqual(self.found(**slurm, PMI_RANK="1", PMI_SIZE="2")[:2], (1, 2))

    def test_a_jobs_script_is_no_task(self):
        self.assertIsNone(self.found(SLURM_PROCID="0", SLURM_NTASKS="8"))
        self.assertEqual(self.found(SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="1", SLURM_NTASKS="8")[:2], (0, 1))
        self.assertEqual(self.found(WORLD_SIZE="1")[:2], (0, 1))

    def test_a_part_is_an_error_that_says_what_to_do(self):
        for given, said in (
                ({"WORLD_SIZE": "2"}, "WORLD_SIZE = 2 and no RANK.*torchrun sets both.*train_dataloader.*rank= and"),
                ({"RANK": "1"}, "RANK = 1 and no WORLD_SIZE"),
                ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, "SLURM_PROCID = 1 and no SLURM_STEP_NUM_TASKS.*srun"),
                ({"SLURM_STEP_NUM_TASKS": "2"}, "SLURM_STEP_NUM_TASKS = 2 and no SLURM_PROCID"),
                ({"OMPI_COMM_WORLD_SIZE": "2"}, "no OMPI_COMM_WORLD_RANK.*Open MPI"),
                ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK = 'one', which is no number: unset it"),
                ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK = '-1'")):
            with self.subTest(given=given), self.assertRaisesRegex(ValueError, said):
                self.found(**given)

    def test_arguments_come_first(self):
        with unittest.mock.patch.dict(os.environ, environment(WORLD_SIZE="2"), clear=True):
            self.assertEqual(isocost.options.topology.resolve(None, 1, 3, False).process, (1, 3))
            with self.assertRaisesRegex(ValueError, "WORLD_SIZE = 2 and no RANK"):
                isocost.DataLoader("nowhere")
        with unittest.mock.patch.dict(os.environ, environment(RANK="3", WORLD_SIZE="2"), clear=True), \
                self.assertRaisesRegex(ValueError, "rank = 3: must be from 0"):
            isocost.DataLoader("nowhere")


class Launches(ShardTest):
    def processes(self, program, environments, *arguments):
        """The outputs of processes that run at once."""
        script = pathlib.Path(self.directory) / "rank_program.py"
        script.write_text(program)
        started = [subprocess.Popen([sys.executable, "-B", script, self.shards, *[str(each[i]) for each in arguments]],
                                    env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                   for i, environ in enumerate(environments)]
        try:
            outputs = [process.communicate(timeout=2 * TIMEOUT) for process in started]
        finally:
            for process in started:
                process.kill()
                process.wait()
        self.assertEqual([process.returncode for process in started], [0] * len(started),
                         [errors for _, errors in outputs])
        return [output for output, _ in outputs]

    def assert_each_sample_once(self, outputs):
        ranks = [json.loads(output) for output in outputs]
        self.assertEqual([each[:2] for each in ranks], [[0, len(ranks)], [1, len(ranks)]])
        self.assertEqual(sorted(sample for each in ranks for sample in each[2]), list(range(SAMPLES)))

    def test_tasks_of_srun_train_on_samples_of_their_own(self):
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "SLURM_NTASKS": "8"}
        self.assert_each_sample_once(self.processes(TRAIN, [
            environment(SLURM_PROCID=str(rank), SLURM_STEP_NUM_TASKS="2", **where) for rank in range(2)]))

    def test_ranks_of_open_mpi_train_on_samples_of_their_own(self):
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        self.assert_each_sample_once(self.processes(TRAIN, [
            environment(OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2", **where) for rank in range(2)]))

    def test_tasks_that_cannot_find_each_other_are_told(self):
        alone = environment(SLURM_PROCID="1", SLURM_STEP_NUM_TASKS="2")
        with unittest.mock.patch.dict(os.environ, alone, clear=True), \
                self.assertRaisesRegex(RuntimeError, "MASTER_ADDR and MASTER_PORT, as under srun.*isocost serve"):
            isocost.DataLoader(self.shards)

    # Debian's torchrun 1.13 does not start under Python 3.11.
    @unittest.skipUnless(torch.__version__ >= "2", "this torch's torchrun does not start under this Python")
    def test_torchrun_itself(self):
        script = pathlib.Path(self.directory) / "torchrun_program.py"
        script.write_text(TRAIN)
        run = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                              script, self.shards], env=environment(), capture_output=True, text=True,
                             timeout=2 * TIMEOUT)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assert_each_sample_once(sorted(run.stdout.splitlines()))

    def late(self, numbers):
        rendezvous = pathlib.Path(self.directory) / f"late-{len(list(self.directory.glob('late-*')))}"
        return self.processes(LATE, [environment()] * 2, range(2), [rendezvous] * 2, [numbers] * 2)

    def test_a_loader_that_was_made_before_the_process_group_ends_the_run(self):
        said = self.late("{}")
        for rank, output in enumerate(said):
            self.assertRegex(output, rf"made as rank 0 of 1 \(no launcher .*this process is rank {rank} of 2 of the "
                                     r"process group.*init_process_group.*train_dataloader.*rank= and world_size=")

    def test_numbers_that_were_given_stay(self):
        self.assertEqual(self.late("{'rank': 0, 'world_size': 1}"), ["trains\n"] * 2)


if __name__ == "__main__":
    main()
