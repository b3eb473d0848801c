"""A stream that behaves like a terminal for code in this process. COLUMNS sets its width."""

from __future__ import annotations

import io


class Terminal(io.TextIOWrapper):
    """Stores the output, for `contextlib.redirect_stdout` and `redirect_stderr`."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()
