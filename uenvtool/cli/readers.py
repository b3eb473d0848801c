"""The commands by who needs them, as `uenvtool --help` lists them, each in one whole sentence."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

READERS = {
    "To run a job (if you know sbatch)": {
        "venv": "Lay Python packages of your own over a uenv or container.",
        "job": "Write and submit a tuned multi-node job; check batch scripts.",
        "activate": "Set the network and the libraries up in a shell or a job.",
        "explain": "Say what a variable is set to, why, and who says so.",
        "doctor": "Say what is slow or wrong, in a shell or a job's output.",
    },
    "To build an image (if you run a site)": {
        "build": "Write the Spack environment of a recipe and resolve it.",
        "new": "Write a commented recipe or system of your own.",
        "edit": "Add, remove and pin packages in a recipe of your own.",
        "validate": "Find everything that is wrong in recipes and systems.",
        "image": "Build images; show, check and compare what is in them.",
        "container": "Write the Containerfile, EDF and pipeline of an image.",
    },
    "To look around": {
        "list": "List the recipes, systems and tuning files.",
        "show": "Show a recipe or system, and where each value is from.",
        "diff": "Compare recipes, environments, locks or published tables.",
        "schema": "Print the JSON Schema of a kind of file, for editors.",
    },
}
SENTENCES = {name: sentence for commands in READERS.values() for name, sentence in commands.items()}


class ByReader(TyperGroup):
    """The group of all commands, whose help lists them by who needs them."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands below the options."""
        for reader, commands in READERS.items():
            with formatter.section(reader):
                formatter.write_dl(list(commands.items()))
