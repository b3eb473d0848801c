"""Program that reads dumps of PyTorch's flight recorder and prints a summary of each as a line of JSON.

It runs in a separate process with limited memory and CPU time, because a dump is a pickle from an untrusted source. It
executes nothing in a dump, because it does not resolve the names of classes and functions. PyTorch's FlightRecorder.cpp
and its reader torch/distributed/flight_recorder define the format (versions 2.0 to 2.10).
"""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

LAST = 32
"""The number of collectives kept per group. A dump contains thousands, but ranks differ only in the last few."""
MOST_BYTES = 1 << 27
MOST_RANKS, MOST_GROUPS, MOST_SIZES = 1 << 20, 1 << 12, 16
"""The maximum number of characters in a group's list of ranks, of groups, and of sizes per call.

These limits keep the output small for any dump.
"""
OPEN = "open"
_PACKAGES = re.compile(r"/(site|dist)-packages/|/torch/|<frozen |/lib/python3\.\d+/")
"""Matches files of PyTorch, other packages and Python, which are not the user's code."""
_RANK = re.compile(r"(\d{1,6})(?:\.\w+)?\Z")


class _DataUnpickler(pickle.Unpickler):
    """An unpickler for lists, dicts, strings and numbers that rejects classes and functions."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"the dump references {module}.{name}, which is not a plain data type")


def summary(path: str) -> dict[str, Any]:
    """Return the summary of a dump.

    Raises ValueError if the dump is invalid, or any exception that a damaged pickle causes.
    """
    rank = _RANK.search(path)
    if rank is None:
        raise ValueError("the file name does not end with a rank number")
    if os.path.getsize(path) > MOST_BYTES:
        raise ValueError("the file is too large")
    with open(path, "rb") as stream:
        content = stream.read()
    data = json.loads(content) if content.startswith(b"{") else _DataUnpickler(io.BytesIO(content)).load()
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
        if name not in groups:  # gloo records only the last created group, without a name
            groups[name] = {"ranks": "", "desc": _text(entry["process_group"][1]), "calls": {}}
        calls, number = groups[name]["calls"], int(entry["collective_seq_id"])
        if number in calls or len(calls) < LAST:
            calls.setdefault(number, []).append(entry)
    for group in groups.values():
        group["calls"] = [[number, _merged(same[::-1])] for number, same in reversed(group["calls"].items())]
    last = [_text(entries[-1]["process_group"][0]), *_numbered(entries[-1])] if entries else None
    is_whole = not entries or int(entries[0]["record_id"]) == 0
    return {"rank": int(rank[1]), "groups": groups, "waits": waits, "last": last, "is_whole": is_whole}


def _text(value: object, most: int = 400) -> str:
    if isinstance(value, (str, int)):
        return str(value)[:most]  # a few bytes of a pickle can expand to a long text
    raise ValueError(f"expected a text, got {type(value).__name__}")


def _numbered(entry: Mapping[str, Any]) -> list[Any]:
    return [int(entry["p2p_seq_id" if entry["is_p2p"] else "collective_seq_id"]), _operation(entry)]


def _merged(entries: list[Mapping[str, Any]]) -> list[Any]:
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
    """Return the state of a call. gloo never marks a call as completed, but retires it, also after a failure."""
    return "completed" if entry["state"] == "completed" else "let go" if entry["retired"] else OPEN


def _line(frames: Iterable[Mapping[str, Any]]) -> str:
    innermost: Mapping[str, Any] | None = None
    for frame in frames:
        is_python, is_user_code = _kind(frame["filename"])
        innermost = innermost or (frame if is_python else None)
        if is_user_code:
            innermost = frame
            break
    return f"{_text(innermost['filename'])}:{int(innermost['line'])}" if innermost else ""


@cache  # a dump has many frames in few files
def _kind(filename: object) -> tuple[bool, bool]:
    """Return whether a file contains Python code, and whether it is the user's code."""
    is_python = bool(filename) and ":" not in _text(filename)
    return is_python, is_python and not _PACKAGES.search(_text(filename))


def summaries(paths: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the summary of each dump, or the reason why it cannot be read."""
    for path in paths:
        try:
            yield summary(path)
        except Exception as error:  # a damaged pickle can raise any exception
            number = _RANK.search(path)
            why = str(error) or type(error).__name__
            yield {"path": path, "rank": int(number[1]) if number else None, "why": why[:200]}


if __name__ == "__main__":
    cpu_seconds, *dumps = sys.argv[1:]
    for dump in dumps:
        signal.setitimer(signal.ITIMER_PROF, int(cpu_seconds))  # its signal ends this process, also in C code
        for row in summaries([dump]):
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
