"""The process of one contender: `process.py CONTENDER WORK DIRECTORY [--tensors FILE]`, started by measuring.py.

Without --tensors it prints a line of JSON: the wall and CPU seconds of the timed passes, of this process and of all its
descendants. The clock starts in mid-stream, when the first pass has been received, and stops before the last pass:
workers have started, queues are filled at both ends, and nobody waits for the end. With --tensors it saves the first
batches, in the order of the files.
"""

import contextlib
import itertools
import json
import os
import pathlib
import resource
import sys
import time

import data
import torch
from contenders import CONTENDERS
from works import TIMED_PASSES, work_of

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from process_tree import tree  # noqa: E402

COMPARED_BATCHES = 6


def cpu_seconds():
    """Returns the seconds of this process, its living descendants, and the children that have ended, to the
    nanosecond."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = ended.ru_utime + ended.ru_stime
    for pid in tree(os.getpid()):
        with contextlib.suppress(OSError):
            total += time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid(pid) returns
    return total


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


def timed(batches, a_pass, outside=False):
    """Returns the time, CPU time and memory of the timed passes; a_pass is the number of batches of a pass. If programs
    `outside` of this process do the work, its own memory does not count."""
    received = 0
    for batch in batches:
        del batch  # Freed as after a step: two batches never exist at once.
        received += 1
        if received == a_pass:
            begin, cpu, machine = time.perf_counter(), cpu_seconds(), machine_seconds()
        if received == (1 + TIMED_PASSES) * a_pass:
            break
    else:
        raise SystemExit(f"only {received} batches came, of passes of {a_pass}")
    seconds, own = time.perf_counter() - begin, cpu_seconds() - cpu
    processes = [pid for pid in tree(os.getpid()) if not (outside and pid == os.getpid())]
    return {"seconds": seconds, "cpu_s": own, "others_cpu_s": max(0.0, machine_seconds() - machine - own),
            "peak_bytes": memory("status", "VmHWM", processes),
            "shared_bytes": memory("smaps_rollup", "Pss", processes)}


def main():
    name, work, directory, *tensors = sys.argv[1:]
    torch.set_num_threads(1)
    contender, work = CONTENDERS[name], work_of(work)
    dataset = data.load(pathlib.Path(directory))
    batches = contender.load().batches(work, dataset, contender.variant, bool(tensors))
    if tensors:
        torch.save(list(itertools.islice(batches, COMPARED_BATCHES)), tensors[1])
    else:
        result = timed(batches, len(dataset.samples) // work.batch, bool(contender.program))
        print(json.dumps({**result, "samples": TIMED_PASSES * len(dataset.samples)}), flush=True)
    if hasattr(batches, "close"):
        batches.close()


if __name__ == "__main__":
    main()
