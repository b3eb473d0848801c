"""The commands `activate` and `explain`."""

from __future__ import annotations

import typer

from uenvtool.activation.request import ActivateRequest, ExplainRequest
from uenvtool.core.options import command
from uenvtool.core.result import Result

app = typer.Typer()


@app.command()
@command(ActivateRequest, json=False)
def activate(request: ActivateRequest) -> Result:
    """Print what sets a shell up for a system.

    In a shell: `eval "$(uenvtool activate)"`, or `source activate/SYSTEM.sh`.
    """
    from uenvtool.activation import activate as work

    return work.activate(request)


@app.command()
@command(ExplainRequest)
def explain(request: ExplainRequest) -> Result:
    """Explain variables: what each is set to, when, why, and what the sources say; rules and findings too."""
    from uenvtool.activation import explain as work

    return work.explain(request)
