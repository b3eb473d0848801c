"""A model of how long the file system takes when many ranks import at once; it prints the table of docs/scale.md.

    python benchmarks/scale.py

COUNTED is what `benchmarks/run operations` counted in a process; PUBLISHED what a site says of its file systems.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Counted(NamedTuple):
    """What a node asks of the shared file system for one cold import: lookups, reads, megabytes."""

    lookups: int
    reads: int
    megabytes: float


class Published(NamedTuple):
    """What a file system does in a second for all: lookups (its creates, which are dearer), reads, megabytes."""

    lookups: float
    reads: float
    megabytes: float


COUNTED = {
    "files in place": Counted(lookups=3513, reads=972, megabytes=0),
    "the guide's image": Counted(lookups=10, reads=1449, megabytes=36),
    "uenvtool's image": Counted(lookups=10, reads=1018, megabytes=42),
}
PUBLISHED = {
    "Lustre (Capstor)": Published(lookups=374e3, reads=1.5e6, megabytes=1.19e6),
    "NFS (VAST)": Published(lookups=97e3, reads=200e3, megabytes=38e3),
}
ANSWER_SECONDS = 0.0005
"""How long one lookup or read takes of a server that is idle."""
RANKS_OF_A_NODE = 4
RANKS = (1, 100, 10_000)


def seconds(counted: Counted, published: Published, ranks: int) -> float:
    """Return the seconds of the file system: one after the other on a node, or what its servers can do for all."""
    nodes = -(-ranks // RANKS_OF_A_NODE)
    of_a_node = (counted.lookups + counted.reads) * ANSWER_SECONDS
    of_the_servers = (nodes * each / most for each, most in zip(counted, published, strict=True))
    return max(of_a_node, *of_the_servers)


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    heads = [f"{ranks:,} rank{'s' if ranks > 1 else ''}" for ranks in RANKS]
    yield f"| seconds of the file system | {' | '.join(heads)} |"
    yield f"|---{'|---' * len(RANKS)}|"
    for place, published in PUBLISHED.items():
        for label, counted in COUNTED.items():
            cells = (f"{seconds(counted, published, ranks):.1f}" for ranks in RANKS)
            yield f"| {place}: {label} | {' | '.join(cells)} |"


if __name__ == "__main__":
    print("\n".join(table()))
