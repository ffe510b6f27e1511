"""Names of the hardware that this process computes on, and versions of the software."""

import platform
import sys
from typing import Dict


def hardware() -> str:
    """Returns the name of the device that this process computes on: the GPU where CUDA is initialized, else the CPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return str(torch.cuda.get_device_name())
    return cpu_name() or platform.machine()


def cpu_name() -> str:
    """Returns the CPU's name as Linux gives it; empty if it gives none."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        return ""


def versions() -> Dict[str, str]:
    """Returns the versions of Python, torch and CUDA in use."""
    found = {"python": platform.python_version()}
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = str(torch.__version__)
        if torch.cuda.is_initialized():
            found["cuda"] = str(torch.version.cuda)
    return found
