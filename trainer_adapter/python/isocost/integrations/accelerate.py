"""Loops of accelerate over an isocost.DataLoader.

    >>> from isocost.integrations.accelerate import check
    >>> accelerator = accelerate.Accelerator()
    >>> check(accelerator)
    >>> accelerator.register_for_checkpointing(loader)

examples/frameworks/accelerated.py has a whole loop. The loader is not given to `accelerator.prepare`: it deals out the
ranks' samples and moves them to the device itself. Tested with accelerate 1.15.
"""

import os

import accelerate

from isocost.integrations.versions import note_version

_REFUSED = {
    "DEEPSPEED": "DeepSpeed's engine steps its optimizer by its own count of microbatches",
    "MEGATRON_LM": "Megatron-LM splits batches itself",
}


def check(accelerator: accelerate.Accelerator) -> None:
    """Raises ValueError unless the accelerator's gradients of a loop over a loader are right. Warns of a version of
    accelerate that is not tested.

    They are if it divides them by nothing but the number of ranks, which
    `accelerator.backward(loss * accelerator.num_processes)` undoes, and if each rank trains on samples of its own."""
    note_version("accelerate")
    steps = accelerator.gradient_accumulation_steps
    if steps != 1:
        raise ValueError(
            f"gradient_accumulation_steps = {steps}: accelerate would divide each loss by it, though a microbatch's "
            "loss is its share of the global batch's mean already: leave it 1, and run all microbatches of a step but "
            "the last under accelerator.no_sync(model)")
    kind = accelerator.distributed_type.name
    if kind in _REFUSED:
        raise ValueError(f"distributed_type = {kind}: {_REFUSED[kind]}, which is not supported: use DDP or FSDP")
    known, started = accelerator.num_processes, int(os.environ.get("WORLD_SIZE", 1))
    if known != started:
        raise ValueError(
            f"accelerator.num_processes = {known}, and WORLD_SIZE = {started}: each rank would train a model of its "
            "own: make the Accelerator in ranks that were started, and on CPUs with ACCELERATE_USE_CPU=1 "
            "or Accelerator(cpu=True)")
    sizes = getattr(accelerator, "parallelism_config", None)
    for name in ("tp_size", "cp_size", "sp_size"):
        size = getattr(sizes, name, 1)
        if size != 1:
            raise ValueError(f"parallelism_config.{name} = {size}: ranks that share a sample need the same "
                             "microbatches, which is not supported with accelerate: leave it 1")
