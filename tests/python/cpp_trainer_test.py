"""C++ trainers beside a node of their own: examples/distributed_trainer with its kills, resumes and signals, and saved
states that go from Python to C++ and back."""

import json
import pathlib
import re
import signal
import subprocess
import time

import isocost
from support import PROGRAM, SAMPLES, SKIPPED, TIMEOUT, ShardTest, main

BUILD = pathlib.Path(PROGRAM).parent
TRAINER = BUILD / "distributed_trainer"
STATE_CLIENT = BUILD / "tests/state_client"
BATCH = 8
STEPS = -(-SAMPLES // BATCH)
LINE = re.compile(r"epoch (\d+) step (\d+) loss (\S+)")


def losses(text):
    return {(int(epoch), int(step)): float(loss) for epoch, step, loss in LINE.findall(text)}


class Trainers(ShardTest):
    runs = 0

    def node(self, *arguments, microbatches=2):
        return self.serve("--global-batch-size", BATCH, "--microbatches", microbatches, "--seed", 3, *arguments)

    def start(self, endpoint, ranks, *arguments):
        Trainers.runs += 1
        store = self.directory / f"store-{Trainers.runs}"
        processes = []
        for rank in range(ranks):
            process = subprocess.Popen(
                [TRAINER, "--endpoint", endpoint, "--rank", str(rank), "--world-size", str(ranks), "--store", store,
                 *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            processes.append(process)
        return processes

    def end(self, processes, status=0):
        """Returns the losses that rank 0 printed, and the whole output."""
        ended = [process.communicate(timeout=2 * TIMEOUT) for process in processes]
        self.assertEqual([process.returncode for process in processes], [status] * len(processes), ended)
        return losses(ended[0][0]), "".join(out + err for out, err in ended)

    def whole(self, epochs):
        """The losses of a run of two ranks that nothing interrupts."""
        _, endpoint = self.node("--ranks", 2, "--epochs", epochs, "--balance", "in-order")
        return self.end(self.start(endpoint, 2, "--epochs", epochs))[0]

    def take(self, processes, steps):
        """Waits until rank 0 has printed so many steps; their losses."""
        return losses("".join(processes[0].stdout.readline() for _ in range(steps)))

    def test_killed_it_resumes_with_equal_losses_and_on_other_numbers_of_ranks(self):
        expected = self.whole(2)
        self.assertEqual(sorted(expected), [(epoch, step) for epoch in range(2) for step in range(STEPS)])
        for ranks in (2, 1, 3):
            with self.subTest(ranks=ranks):
                checkpoint = self.directory / f"killed-{ranks}.pt"
                # Plans by cost follow what was measured, and then sums are rounded otherwise.
                _, endpoint = self.node("--ranks", 0, "--epochs", 2, "--balance", "in-order")
                killed = self.start(endpoint, 2, "--epochs", 2, "--checkpoint", checkpoint)
                before = self.take(killed, STEPS + 2)
                for process in killed:
                    process.kill()
                before.update(losses([process.communicate()[0] for process in killed][0]))
                after, _ = self.end(self.start(endpoint, ranks, "--epochs", 2, "--checkpoint", checkpoint))
                self.assertEqual(max(after), (1, STEPS - 1))
                for at, loss in {**before, **after}.items():
                    if ranks == 2:
                        self.assertEqual(loss, expected[at], at)
                    self.assertAlmostEqual(loss, expected[at], delta=1e-4 * expected[at])
                # A step is saved before it is printed, so that one may have been saved alone; its update is in the
                # losses after it.
                steps = sorted(expected)
                begins = steps.index(min(after))
                self.assertEqual(sorted(after), steps[begins:])
                self.assertEqual(sorted(before), steps[:len(before)])
                self.assertGreaterEqual(len(before), begins - 1)

    def test_a_signal_ends_all_ranks_after_the_same_step(self):
        checkpoint = self.directory / "signalled.pt"
        _, endpoint = self.node("--ranks", 0, "--epochs", 0)
        processes = self.start(endpoint, 2, "--epochs", 1000000, "--checkpoint", checkpoint)
        first = self.take(processes, 1)
        processes[1].send_signal(signal.SIGINT)  # one rank is told, and both stop
        seen, _ = self.end(processes)
        last = max({**first, **seen})
        # Another process continues at the step after.
        resumed = self.start(endpoint, 1, "--epochs", 1000000, "--checkpoint", checkpoint)
        self.assertGreater(min(self.take(resumed, 1)), last)
        resumed[0].send_signal(signal.SIGTERM)
        self.end(resumed)

    def test_a_drained_node_is_an_error_and_the_checkpoint_is_where_to_resume(self):
        checkpoint = self.directory / "drained.pt"
        node, endpoint = self.node("--ranks", 2, "--epochs", 0)
        processes = self.start(endpoint, 2, "--epochs", 1000000, "--checkpoint", checkpoint)
        first = self.take(processes, 2)
        begun = time.monotonic()
        node.send_signal(signal.SIGTERM)
        seen, printed = self.end(processes, status=3)
        self.assertLess(time.monotonic() - begun, TIMEOUT / 2)
        epoch, step = max({**first, **seen})
        resume = (epoch, step + 1) if step + 1 < STEPS else (epoch + 1, 0)
        self.assertIn("the node stops: it is draining", printed)
        self.assertIn("resume at epoch {}, step {}".format(*resume), printed)

    def test_the_mean_of_an_evaluation_is_that_of_any_number_of_ranks(self):
        means = []
        for ranks in (1, 2):
            _, endpoint = self.node("--ranks", ranks, "--epochs", 2)
            _, evaluation = self.node("--ranks", ranks, "--epochs", 0)
            _, printed = self.end(self.start(endpoint, ranks, "--epochs", 2, "--evaluation", evaluation))
            means.append([float(mean) for mean in re.findall(r"evaluation (\S+)", printed)])
        self.assertEqual([len(of_ranks) for of_ranks in means], [2, 2])
        for one, two in zip(*means):
            self.assertAlmostEqual(one, two, delta=1e-3)
        self.assertLess(means[0][1], means[0][0])

    def test_states_go_from_python_to_cpp_and_back(self):
        state = self.directory / "state.json"

        def by_cpp(endpoint, steps, file):
            done = subprocess.run([STATE_CLIENT, endpoint, str(steps), file], capture_output=True, text=True,
                                  timeout=TIMEOUT)
            self.assertEqual(done.returncode, 0, done.stderr)
            numbers = [[int(number) for number in line.split()] for line in done.stdout.splitlines()]
            return [(epoch, step, ids) for epoch, step, *ids in numbers]

        def by_python(endpoint, steps):
            seen = []
            with isocost.DataLoader(endpoint, endless=True) as loader:
                loader.load_state_dict(json.loads(state.read_text()))
                for microbatch in loader:
                    ids = [id_ for id_, weight in zip(microbatch.sample_ids, microbatch.sample_weights) if weight > 0]
                    seen.append((microbatch.epoch, microbatch.step, sorted(ids)))
                    if microbatch.last_of_step and len(seen) == steps:
                        break
                state.write_text(json.dumps(loader.state_dict(after=microbatch)))
            return seen

        _, endpoint = self.node("--ranks", 1, "--epochs", 0, microbatches=1)
        expected = by_cpp(endpoint, 12, self.directory / "whole.json")
        seen = by_cpp(endpoint, 3, state)
        seen += by_python(endpoint, 5)
        seen += by_cpp(endpoint, 4, state)
        self.assertEqual(seen, expected)
        resumed, whole = (json.loads(file.read_text()) for file in (state, self.directory / "whole.json"))
        self.assertEqual(sorted(resumed), sorted(whole))
        for name in ("version", "cursor", "epoch", "step"):
            self.assertEqual(resumed[name], whole[name])


if __name__ == "__main__":
    if not TRAINER.exists():
        raise SystemExit(SKIPPED)
    main()
