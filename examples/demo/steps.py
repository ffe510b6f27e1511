"""The demo's steps: announces each with what is left after it, and says how long training still takes."""

import pathlib
import sys
import time

TABLE = pathlib.Path(__file__).with_name("steps.txt")
QUICK_STEPS = 16  # of a pass; the table's seconds of training are for these


def about(seconds):
    """"about 40 s", "about 4 min"."""
    return f"about {seconds:.0f} s" if seconds < 60 else f"about {(seconds + 30) // 60:.0f} min"


def read_table():
    """Returns (name, seconds, text) of each step, in order."""
    lines = [line for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    return [(name, int(seconds), text) for name, seconds, text in (line.split(maxsplit=2) for line in lines)]


def announce(name, steps_of_a_pass):
    """Prints the step's number, its text and the time of the steps after it, for passes of so many steps."""
    table = read_table()
    at = [row[0] for row in table].index(name)
    left = sum(seconds * (steps_of_a_pass / QUICK_STEPS if later == "train" else 1)
               for later, seconds, _ in table[at + 1:])
    after = f"; after it {about(left)}" if left else ""
    print(f"step {at + 1} of {len(table)}: {table[at][2]}{after}", file=sys.stderr, flush=True)


class Pace:
    """Says how long training still takes, by the steps so far."""

    def __init__(self, steps):
        self.steps = steps
        self.done = 0
        self.begin = time.monotonic()

    def left(self, steps_of_this_pass):
        """The time left when this pass has made so many steps: "", or ", about 3 min left"."""
        done = self.done + steps_of_this_pass
        if done < 3:  # the first steps include starting
            return ""
        return f", {about((time.monotonic() - self.begin) / done * (self.steps - done))} left"

    def end_pass(self, steps_of_this_pass):
        self.done += steps_of_this_pass
