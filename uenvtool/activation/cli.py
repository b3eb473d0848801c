"""The commands `activate` and `explain`."""

from __future__ import annotations

from uenvtool.activation.request import ActivateRequest, ExplainRequest
from uenvtool.core.options import Commands, command
from uenvtool.core.result import Result

app = Commands()


@app.command()
@command(ActivateRequest, json=False)
def activate(request: ActivateRequest) -> Result:
    """Print a script that sets a system's network and library variables.

    Run it with `eval "$(uenvtool activate)"`, or use the committed script with
    `source activate/SYSTEM.sh`.
    """
    from uenvtool.activation import activate as work

    return work.activate(request)


@app.command()
@command(ExplainRequest)
def explain(request: ExplainRequest) -> Result:
    """Explain variables, rules, findings and sources.

    For a variable, it prints each value with its condition, reason and source.
    """
    from uenvtool.activation import explain as work

    return work.explain(request)
