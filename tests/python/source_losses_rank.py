"""A rank that trains on a mixture and sums losses by source over all ranks. Argument: the mixture's file."""

import json
import sys

from torch import distributed

import isocost
from source_losses_test import loss_of

distributed.init_process_group("gloo")
loader = isocost.DataLoader(sys.argv[1], global_batch_size=8, microbatches=2)
total = None
for microbatch in loader:
    found = isocost.losses_by_source(microbatch, loss_of(microbatch), loader.sources)
    total = found if total is None else total + found
distributed.all_reduce(total.totals)
print(json.dumps({"rank": distributed.get_rank(), "names": total.names, "sums": total.sums.tolist(),
                  "counts": total.counts.tolist(), "means": total.means()}), flush=True)
distributed.barrier()
loader.close()
distributed.destroy_process_group()
