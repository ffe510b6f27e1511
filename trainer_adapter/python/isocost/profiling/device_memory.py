"""Free memory of a device."""

from typing import Any


def free_bytes(device: Any) -> int:
    """Returns the bytes that this process may still allocate on a torch device, according to CUDA or Linux."""
    import torch

    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # by torch, for reuse
        return int(torch.cuda.mem_get_info(device)[0] + kept)
    with open("/proc/meminfo", encoding="ascii") as lines:
        available = next(line for line in lines if line.startswith("MemAvailable:"))
    return 1024 * int(available.split()[1])
