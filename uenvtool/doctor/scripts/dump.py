"""Reads dumps of PyTorch's flight recorder, and prints of each what tells its rank from others, a line of JSON.

Run as a program of its own, with limited memory: a dump is a pickle that somebody else wrote. Nothing in it is called,
since no name of a class or function is looked up. The format is that of FlightRecorder.cpp and of its reader,
torch/distributed/flight_recorder (versions 2.0 to 2.10).
"""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

LAST = 32
"""So many collectives of a group are kept: ranks differ at the end, and a dump has up to thousands."""
MOST_BYTES = 1 << 27
MOST_RANKS, MOST_GROUPS, MOST_SIZES = 1 << 20, 1 << 12, 16
"""Letters of the ranks of a group, groups, and sizes of a call: what is printed stays small whatever a dump holds."""
OPEN = "open"
_PACKAGES = re.compile(r"/(site|dist)-packages/|/torch/|<frozen |/lib/python3\.\d+/")
"""Where the lines lie that are not the user's own."""
_RANK = re.compile(r"(\d{1,6})(?:\.\w+)?\Z")
"""The number of the rank at the end of the name of its file."""


class _DataAlone(pickle.Unpickler):
    """Reads lists, dicts, texts and numbers; refuses whatever names a class or a function."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def summary(path: str) -> dict[str, Any]:
    """Return what a dump says of its rank. Raises ValueError, or whatever a damaged pickle leads to."""
    found = _RANK.search(path)
    if found is None:
        raise ValueError("its name does not end with the number of a rank")
    if os.path.getsize(path) > MOST_BYTES:
        raise ValueError("it is too large")
    with open(path, "rb") as stream:
        written = stream.read()
    data = json.loads(written) if written.startswith(b"{") else _DataAlone(io.BytesIO(written)).load()
    entries = data.get("entries") or []
    groups: dict[str, dict[str, Any]] = {
        _text(name): {"ranks": _text(group["ranks"], MOST_RANKS), "desc": _text(group["desc"]), "calls": {}}
        for name, group in islice((data.get("pg_config") or {}).items(), MOST_GROUPS)
    }
    waits: list[list[Any]] = []
    for entry in reversed(entries):
        name = _text(entry["process_group"][0])
        if entry["is_p2p"]:
            if len(waits) < LAST and _state(entry) == OPEN:
                waits.append([name, *_operation(entry)])
            continue
        group = groups.get(name) or groups.setdefault(name, _unnamed(entry))
        calls, number = group["calls"], int(entry["collective_seq_id"])
        if number in calls or len(calls) < LAST:
            calls.setdefault(number, []).append(entry)
    for group in groups.values():
        group["calls"] = [[number, _together(those[::-1])] for number, those in reversed(group["calls"].items())]
    last = [_text(entries[-1]["process_group"][0]), *_numbered(entries[-1])] if entries else None
    is_whole = not entries or int(entries[0]["record_id"]) == 0
    return {"rank": int(found[1]), "groups": groups, "waits": waits, "last": last, "is_whole": is_whole}


def _text(value: object, most: int = 400) -> str:
    """Return the start of a text, which few bytes of a pickle can make long. Raises ValueError for another value."""
    if isinstance(value, (str, int)):
        return str(value)[:most]
    raise ValueError("it has a text that is none")


def _unnamed(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group that the dump has no ranks of: gloo writes down those of the group made last, under no name."""
    return {"ranks": "", "desc": _text(entry["process_group"][1]), "calls": {}}


def _numbered(entry: Mapping[str, Any]) -> list[Any]:
    return [int(entry["p2p_seq_id" if entry["is_p2p"] else "collective_seq_id"]), _operation(entry)]


def _together(entries: list[Mapping[str, Any]]) -> list[Any]:
    calls = [_operation(entry) for entry in entries[:MOST_SIZES]]
    return [" + ".join(call[0] for call in calls), *calls[-1][1:]] if len(calls) > 1 else calls[0]


def _operation(entry: Mapping[str, Any]) -> list[Any]:
    _, _, name = (shown := _text(entry["profiling_name"])).partition(":")
    sides = [
        [
            [list(map(int, size[:MOST_SIZES])) for size in (entry.get(f"{side}_sizes") or [])[:MOST_SIZES]],
            list(map(_text, entry[f"{side}_dtypes"][:MOST_SIZES])),
        ]
        for side in ("input", "output")
    ]
    return [name or shown, *sides, _line(entry.get("frames") or ()), _state(entry)]


def _state(entry: Mapping[str, Any]) -> str:
    """Return how far a call is; gloo never says that one is completed, and lets go of it also when it failed."""
    return "completed" if entry["state"] == "completed" else "let go" if entry["retired"] else OPEN


def _line(frames: Iterable[Mapping[str, Any]]) -> str:
    """Return the innermost line of the user's own, as FILE:LINE; the innermost of all if none is."""
    innermost: Mapping[str, Any] | None = None
    for frame in frames:
        is_python, is_own = _kind(frame["filename"])
        innermost = innermost or (frame if is_python else None)
        if is_own:
            innermost = frame
            break
    return f"{_text(innermost['filename'])}:{int(innermost['line'])}" if innermost else ""


@cache
def _kind(filename: object) -> tuple[bool, bool]:
    """Tell if a frame is one of Python's, and if it is the user's own; a rank has few files and many frames."""
    is_python = bool(filename) and ":" not in _text(filename)
    return is_python, is_python and not _PACKAGES.search(_text(filename))


def summaries(paths: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield what each dump says, or why it cannot be read."""
    for path in paths:
        try:
            yield summary(path)
        except Exception as error:  # a damaged pickle leads to errors of any kind
            number = _RANK.search(path)
            why = str(error) or type(error).__name__
            yield {"path": path, "rank": int(number[1]) if number else None, "why": why[:200]}


if __name__ == "__main__":
    for found in summaries(sys.argv[1:]):
        sys.stdout.write(json.dumps(found) + "\n")
