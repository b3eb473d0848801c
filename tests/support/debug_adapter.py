"""Messages of the Debug Adapter Protocol between an editor and a debugger, over pipes or a socket."""

from __future__ import annotations

import json
from typing import IO, Any


def send(stream: IO[bytes], number: int, command: str, arguments: dict[str, Any]) -> None:
    """Write a request. number: its sequence number."""
    text = json.dumps({"seq": number, "type": "request", "command": command, "arguments": arguments}).encode()
    stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
    stream.flush()


def received(stream: IO[bytes]) -> dict[str, Any] | None:
    """Read the next message, or return None at the end of the stream."""
    length = 0
    while (line := stream.readline()).strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return json.loads(stream.read(length)) if length else None
