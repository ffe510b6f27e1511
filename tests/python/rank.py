"""Runs a program as a rank of a job: rank.py PROGRAM [ARGUMENTS].

Once the program has ended it ends the process group, as torch asks: otherwise a thread of gloo may release a tensor
while the interpreter ends, which aborts the process.
"""

import pathlib
import runpy
import sys

if __name__ == "__main__":
    del sys.argv[0]
    sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_initialized():
        distributed.destroy_process_group()
