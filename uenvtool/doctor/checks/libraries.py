"""The libraries that the loader finds: NCCL's plugin, one MPI, folders that exist."""

from __future__ import annotations

import os
from collections.abc import Iterator

from uenvtool.doctor.checks import Fault
from uenvtool.doctor.snapshot import Snapshot

PLUGIN, MPI = "libnccl-net", "libmpi"
BUILT_IN = ("", "Socket", "IB")
"""The networks that NCCL has without a plugin."""


def check(here: Snapshot) -> Iterator[Fault]:
    """What is missing or double where the loader looks."""
    network = here.environ.get("NCCL_NET", "")
    if network not in BUILT_IN and here.is_at_work:
        if not here.on_disk.libraries.get(PLUGIN):
            yield Fault("plugin-not-found", f"NCCL_NET={network}, and no libnccl-net.so")
        elif here.on_disk.plugin_lacks:
            yield Fault(
                "plugin-needs", f"{here.on_disk.libraries[PLUGIN][0]} needs {', '.join(here.on_disk.plugin_lacks[:3])}"
            )
    interfaces = {os.path.basename(path): path for path in reversed(here.on_disk.libraries.get(MPI, ()))}
    if len(interfaces) > 1:
        yield Fault("two-mpis", " and ".join(sorted(interfaces.values())[:2]))
    if here.on_disk.gone and here.is_at_work:
        yield Fault("library-path-gone", ", ".join(here.on_disk.gone[:3]))
