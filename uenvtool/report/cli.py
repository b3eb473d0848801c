"""The arguments of `uenvtool report`."""

from __future__ import annotations

from uenvtool.core.options import command
from uenvtool.core.result import Result
from uenvtool.report.request import ReportRequest


@command(ReportRequest)
def report(request: ReportRequest) -> Result:
    """Write a page about a stack: packages and why they are there, sizes, versions, licences, CVEs, variables.

    One file, which needs no network: search it, zoom into the graph, narrow it to one package's why and needs.
    """
    from uenvtool.report.report import report as work

    return work(request)
