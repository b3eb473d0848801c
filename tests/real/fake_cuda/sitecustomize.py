"""A CUDA without GPUs, for a torch of CPUs alone: devices are those of CUDA_VISIBLE_DEVICES, as CUDA numbers them.

Python loads this at its start, from a folder of PYTHONPATH. Device N is the N-th that is visible; another one is an
error in the words of CUDA.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from typing import Any


def device_count() -> int:
    return len([each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each])


def set_device(device: Any) -> None:
    index = device if isinstance(device, int) else getattr(device, "index", None) or 0
    if index >= device_count():
        raise RuntimeError("CUDA error: invalid device ordinal")


class Finder:
    """Lets torch.cuda count devices by the variable."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in ("torch.cuda", "torch.optim.optimizer"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            if name == "torch.optim.optimizer":  # from torch 2.15 on a step asks the driver if a graph is captured
                module.Optimizer._accelerator_graph_capture_health_check = lambda self: None
                return
            module.device_count = device_count
            module.is_available = lambda: device_count() > 0
            module.set_device = set_device
            module.current_device = lambda: 0
            module.get_device_name = lambda device=None: "fake"
            module.get_device_capability = lambda device=None: (9, 0)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]
