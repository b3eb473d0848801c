"""A stream that is a terminal, for what goes on in this process; its width is that of COLUMNS."""

from __future__ import annotations

import io


class Terminal(io.TextIOWrapper):
    """Keeps what it gets. For `contextlib.redirect_stdout` and `redirect_stderr`."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()
