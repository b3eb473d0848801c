"""Writes docs/check.svg, the picture of the README: what `uenvtool check` really prints on a terminal.

`picture.py --check` ends with 1 if the picture is another one than the program gives today.
"""

from __future__ import annotations

import os
import pty
import re
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parents[2] / "docs/check.svg"
WIDTH = 92
COMMAND = ("uenvtool", "check", "--system", "clariden", "train.sh")
SCRIPT = """\
#!/bin/bash
#SBATCH --account=a01 --time=01:00:00 --nodes=2
#SBATCH --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=72
#SBATCH --uenv=pytorch/v2.6.0:v1 --view=default
source activate/clariden.sh
export NCCL_NET_PLUGIN=ofi
srun -c 72 torchrun --nproc-per-node=4 train.py | tee train.log
"""


def printed(command: tuple[str, ...], folder: Path) -> str:
    """Return what a command prints on a terminal of WIDTH columns, in a folder."""
    child, terminal = pty.fork()
    if not child:
        os.chdir(folder)
        os.environ.update(COLUMNS=str(WIDTH), TERM="xterm-256color")
        os.environ.pop("NO_COLOR", None)
        os.execv(sys.executable, [sys.executable, "-m", *command])
    found = b""
    try:
        while data := os.read(terminal, 65536):
            found += data
    except OSError:  # the way in which Linux ends a terminal
        pass
    os.waitpid(child, 0)
    return found.decode().replace("\r", "")


def picture() -> str:
    """Return the picture, with the fonts that the reader has: nothing is loaded from a network."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.sh").write_text(SCRIPT)
        text = printed(COMMAND, Path(folder))
    with open(os.devnull, "w") as nothing:
        console = Console(record=True, width=WIDTH, file=nothing, force_terminal=True, legacy_windows=False)
        console.print(Text(f"$ {' '.join(COMMAND)}", style="bold"))
        console.print(Text.from_ansi(text), soft_wrap=True)
        form = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
        return console.export_svg(title="uenvtool", code_format=form, unique_id="check")


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PICTURE.write_text(picture())
    elif PICTURE.read_text() != picture():
        sys.exit(f"{PICTURE.name} is not what the program prints today: run {Path(__file__).name}")
