"""The process of one contender: `process.py CONTENDER WORK DIRECTORY [--server JSON] [--tensors FILE]`, started by
measuring.py.

Without --tensors it prints a line of JSON: the wall and CPU seconds of the timed passes, of this process and of all its
descendants. The clock starts in mid-stream, when the first pass or two have been received, and stops before the last
pass: workers have started, queues are filled at both ends, and nobody waits for the end. With --tensors it saves the
first batches, in the order of the files.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import resource
import sys
import time

import data
import nginx
import torch
from contenders import CONTENDERS
from works import TIMED_PASSES, work_of

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from process_tree import tree  # noqa: E402

COMPARED_BATCHES = 6


def cpu_seconds():
    """Returns the seconds of this process, its living descendants, and the children of all that have ended. Only those
    of descendants are not to the nanosecond."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = ended.ru_utime + ended.ru_stime
    for pid in tree(os.getpid()):
        with contextlib.suppress(OSError):
            total += time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid(pid) returns
            if pid != os.getpid():
                total += seconds_of_ended_children(pid)
    return total


def seconds_of_ended_children(pid):
    """Such as webdataset's workers have: a program that reads a shard."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")  # cutime, cstime


def machine_seconds():
    """CPU seconds of everything that runs on this machine, and those that its hypervisor took."""
    line = pathlib.Path("/proc/stat").read_text().splitlines()[0]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def memory(file, field, processes):
    """The sum of a field of a file of /proc over the processes, in bytes."""
    total = 0
    for pid in processes:
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
                if line.startswith(field + ":"):
                    total += 1024 * int(line.split()[1])
    return total


def timed(batches, a_pass, outside=False, warm_passes=1, asked=None):
    """Returns the time, CPU time and memory of the timed passes; a_pass is the number of batches of a pass. If programs
    `outside` of this process do the work, its own memory does not count. `asked` is the server that has the files."""

    def server_seconds():
        return asked.cpu_seconds() if asked else 0.0

    received = 0
    for batch in batches:
        del batch  # Freed as after a step: two batches never exist at once.
        received += 1
        if received == warm_passes * a_pass:
            begin, cpu, machine = time.perf_counter(), cpu_seconds(), machine_seconds()
            its = server_seconds()
        if received == (warm_passes + TIMED_PASSES) * a_pass:
            break
    else:
        raise SystemExit(f"only {received} batches came, of passes of {a_pass}")
    seconds, own, its = time.perf_counter() - begin, cpu_seconds() - cpu, server_seconds() - its
    processes = [pid for pid in tree(os.getpid()) if not (outside and pid == os.getpid())]
    return {"seconds": seconds, "cpu_s": own, "server_cpu_s": its,
            "others_cpu_s": max(0.0, machine_seconds() - machine - own - its),
            "peak_bytes": memory("status", "VmHWM", processes),
            "shared_bytes": memory("smaps_rollup", "Pss", processes)}


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("contender")
    parser.add_argument("work")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--server", type=nginx.from_json)
    parser.add_argument("--tensors")
    return parser.parse_args()


def main():
    arguments = parse()
    torch.set_num_threads(1)
    contender, work = CONTENDERS[arguments.contender], work_of(arguments.work)
    dataset = data.load(work, arguments.directory, arguments.server)
    batches = contender.load().batches(work, dataset, contender.variant, bool(arguments.tensors))
    if arguments.tensors:
        torch.save(list(itertools.islice(batches, COMPARED_BATCHES)), arguments.tensors)
    else:
        result = timed(batches, len(dataset.samples) // work.batch, bool(contender.program), work.warm_passes,
                       dataset.server)
        print(json.dumps({**result, "samples": TIMED_PASSES * len(dataset.samples)}), flush=True)
    if hasattr(batches, "close"):
        batches.close()


if __name__ == "__main__":
    main()
