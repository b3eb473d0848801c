"""`uenvtool report`: what a stack is made of as data, and as a page of one file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.page import page
from uenvtool.core.result import Result
from uenvtool.env.environment import Environment
from uenvtool.env.plan import build_order, install_seconds
from uenvtool.env.table import compared
from uenvtool.image.sbom import known_vulnerabilities
from uenvtool.knowledge.pages import page_of
from uenvtool.report.request import ReportRequest
from uenvtool.report.stack import Stack, read_stack
from uenvtool.settings import settings_for

SCRIPT = Path(__file__).parent / "report.js"
_NAME = re.compile(r"[\w.-]+")


def report(request: ReportRequest) -> Result:
    """Write the page. Raises BadInput if there is no such stack, or a file of somebody else's in its place."""
    stack = read_stack(request)
    data = describe(stack, request)
    text = page(stack.title, data, SCRIPT)
    files.write_beside(request.output.parent, {request.output.name: text}, force=request.force)
    return Result(
        data=data,
        text=f"{request.output}: {len(stack.packages)} packages of {stack.title}; open it in a browser",
        notes=tuple(f"not known: {line}" for line in data["unseen"]),
    )


def describe(stack: Stack, request: ReportRequest) -> dict[str, Any]:
    """Return what is known of a stack, as the page shows it; packages name each other by their place in the list."""
    places = {package.folder: place for place, package in enumerate(stack.packages)}
    vulnerabilities = known_vulnerabilities(stack.packages)
    seconds = install_seconds()
    variables, unseen = _variables(stack, request)
    needed = {folder for package in stack.packages for folder in package.needs}
    wanted = _asked_for(stack, needed)
    reasons = _reasons(stack.environment) if stack.environment else {}
    matches = compared(stack.environment, stack.lock) if stack.environment and stack.lock else []
    of_table = {match.row.package: match for match in matches}
    return {
        "title": stack.title,
        "facts": {name: text for name, text in stack.facts.items() if text},
        "packages": [
            {
                "name": package.name,
                "version": package.version,
                "kind": package.kind,
                "bytes": package.bytes,
                "needs": [places[need] for need in package.needs if need not in package.build_only],
                "builds": [places[need] for need in package.build_only],
                "asked": package.folder in wanted,
                "why": [*filter(None, [stack.why.get(package.folder)]), *reasons.get(package.name, [])],
                "outside": stack.outside.get(package.folder, ""),
                "licence": stack.licences.get(package.folder, ""),
                "published": of_table[package.name].row.spack_version if package.name in of_table else "",
                "cves": [cve.id for cve, affected in vulnerabilities.items() if package in affected],
                "seconds": seconds.get(package.name),
            }
            for package in stack.packages
        ],
        "published": [
            {
                "name": match.row.name,
                "published": match.row.version,
                "here": match.ours,
                "same": match.same,
                "reason": match.reason,
            }
            for match in matches
        ],
        "source": stack.environment.recipe.published.table.source
        if stack.environment and stack.environment.recipe.published
        else "",
        "cves": [
            {"id": cve.id, "fixed": cve.fixed, "source": cve.source, "packages": [one.name for one in affected]}
            for cve, affected in vulnerabilities.items()
        ],
        "critical_path": [package.name for package in build_order(stack.lock).chain] if stack.lock else [],
        "variables": variables,
        "unseen": [*stack.unseen, *unseen],
    }


def _asked_for(stack: Stack, needed: set[str]) -> set[str]:
    """Return the folders of the packages that somebody asked for; without a lock, of those that no other needs."""
    if stack.lock:
        roots = {found[0] for root in stack.lock.roots if (found := _NAME.match(root))}
        return {package.folder for package in stack.packages if package.name in roots}
    return {one.folder for one in stack.packages if stack.why.get(one.folder) or one.folder not in needed}


def _reasons(environment: Environment) -> dict[str, list[str]]:
    """Return what an environment says of its packages: who asks for them, at which version, and why."""
    found: dict[str, list[str]] = {}
    for group in environment.groups:
        for root in group.roots:
            reason = root.reason or group.reason
            found.setdefault(root.package, []).append(
                f"asked for in the group {group.name}: {root.text}" + (f" ({reason})" if reason else "")
            )
    for settings in environment.packages:
        lines = [("requires", constraint.text, constraint.reason) for constraint in settings.require]
        if settings.preferred:
            lines.append(("prefers", settings.preferred.versions[0].lstrip("="), settings.preferred.reason))
        known = found.setdefault(settings.name, [])
        known += [f"the environment {verb} {text}" + (f": {reason}" if reason else "") for verb, text, reason in lines]
        known += [settings.reason] if settings.reason else []
    return found


def _variables(stack: Stack, request: ReportRequest) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Return what is set for the stack in a job, and why that is not known."""
    environment = stack.environment
    if environment is None and request.system is None:
        return [], ["variables: they depend on the system, --system NAME"]
    here = settings_for(
        environment.system.name if environment else request.system,
        uarch=environment.node.uarch if environment else request.uarch,
        recipe=environment.recipe.name if environment else None,
    )
    return [
        {
            "name": setting.name,
            "value": setting.value,
            "policy": setting.policy,
            "computed": setting.from_,
            "reason": setting.reason,
            "source": f"{setting.source}",
            "url": setting.source.url,
            "page": page_of(setting.name, setting.position.file) or None,
        }
        for setting in here.holding()
    ], []
