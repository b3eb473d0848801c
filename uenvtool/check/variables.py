"""Finders for variables that nothing sets, or that a program does not see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from uenvtool.check.context import Context
from uenvtool.check.launch import Launch
from uenvtool.check.launchers import PYTHON, option_names, options_before_program
from uenvtool.check.parts import OUTER, STEP, Hit, Part, at
from uenvtool.core.words import grouped


def never_set(context: Context) -> Iterator[Hit]:
    """Yield launches whose options for the rendezvous contain variables that nothing in the script sets.

    The problem is a hint if the script runs a file that can set the variables.
    """
    seen = {part.name for part in context.parts("variable")}
    launched = []
    for launch in context.launches:
        used = () if launch.is_prepared else dict.fromkeys(_rendezvous_variables(launch))
        names = [name for name in used if name not in seen and not _FROM_OUTSIDE.fullmatch(name)]
        seen.update(names)
        launched += [(launch, names)] if names else []
    if launched:
        files = _sourced(context)
        texts = [context.source.text, *map(context.read, files)]
        known = {name for text in texts for match in _NAMED.finditer(text) for name in match.groups() if name}
        is_hidden = any(
            not text and not _SETS_NO_RANKS.search(file) for file, text in zip(files, texts[1:], strict=True)
        )
        for launch, names in launched:
            if unset := [name for name in names if name not in known]:
                yield replace(at(launch.part, ", ".join(unset)), is_certain=not is_hidden)


def _sourced(context: Context) -> list[str]:
    return [part.argv[1] for part in context.source.of("command", "source", ".") if len(part.argv) > 1]


def _rendezvous_variables(launch: Launch) -> Iterator[str]:
    """Yield the variables in the launcher's options for the rendezvous. For `python`, yield only known variables."""
    if launch.program == PYTHON:
        yield from (name for word in launch.argv for name in _used(word) if _RENDEZVOUS.fullmatch(name))
        return
    names = option_names(launch.program)
    for name, value in options_before_program(launch.argv).items():
        if name in names:
            yield from _used(value)


def _used(word: str) -> Iterator[str]:
    if "$" in word or OUTER in word:
        yield from (match[1] or match[2] for match in _USED.finditer(word))


_USED = re.compile(rf"[${OUTER}](?:([A-Za-z_]\w*)|\{{([A-Za-z_]\w*)\}})")
_NAMED = re.compile(r"(?<![\w${])([A-Za-z_]\w*)|\$\{(\w+):?[-=?+]|-[nz]\s+[\"']?\$\{?(\w+)")
"""Matches a name without `$`, which can be any form of assignment, or a test whether a variable is set."""
_RENDEZVOUS = re.compile(r"MASTER_(ADDR|PORT)|NNODES|NODE_RANK|WORLD_SIZE|GPUS_PER_NODE|NPROC_PER_NODE")
_FROM_OUTSIDE = re.compile(
    r"(SLURM|PMIX?|OMPI|PALS|FLUX|PBS|LSB)D?_\w+|HOSTNAME|HOST|RANDOM|USER|UID|HOME|PWD|TMPDIR|SCRATCH|PPID|BASHPID|EPOCH\w+"
)
_SETS_NO_RANKS = re.compile(r"/bin/activate$|conda\w*\.sh$|/\.?(bashrc|profile|bash_profile)$|^activate$|/etc/")
"""Files that activate an environment but set no variables for the ranks."""


def unset_variables(context: Context) -> Iterator[Hit]:
    """Yield the commands and assignments that use a lower-case variable, or an array, which nothing in the script sets.

    The shell that submits the job can set other variables, because it exports their names in capital letters.
    """
    if any(context.source.of("command", "eval")) or not all(map(_SETS_NO_RANKS.search, _sourced(context))):
        return
    lines = "\n".join(part.text for part in context.parts("line"))
    known = {name for match in _NAMED.finditer(_IN_OPTION.sub("", lines)) for name in match.groups() if name}
    known.update(re.findall(r"\b(\w+)=", context.source.text))  # a comment on sbatch --export=NAME=VALUE
    for part in (*context.commands, *context.parts("variable")):
        text = "" if part.literal else _IN_SINGLE_QUOTES.sub("", context.source.text[part.offset : part.end])
        for match in _USED_OR_INDEXED.finditer(text):
            name = match[1] or match[2]
            if name not in known and not _OF_BASH.fullmatch(name):
                known.add(name)
                yield at(part, name)


_IN_OPTION = re.compile(r"[%/.\\-]\w+")
"""Matches a word that is not the name of a variable, such as `-n`, `%n` or `/name`."""
_IN_SINGLE_QUOTES = re.compile(r"'[^']*'")
_USED_OR_INDEXED = re.compile(r"(?<![\\\w$])\$(?:\{?([a-z][a-z0-9_]*)\b|\{([A-Za-z_]\w*)\[)")
"""Matches a variable with a lower-case name, or an element of an array."""
_OF_BASH = re.compile(r"BASH_\w+|FUNCNAME|PIPESTATUS|DIRSTACK|GROUPS|COPROC|MAPFILE|histchars|\w+_proxy")
"""The arrays that bash sets, and the lower-case variables that are usually set outside the script."""


def not_exported(context: Context) -> Iterator[Hit]:
    """Yield commands of an inner shell that use a variable which only the batch script's own shell sees.

    The problem is a hint if the script runs a file that can export the variable.
    """
    variables = context.parts("variable")
    others = {part.name for part in variables if part.exported or _in_other_shell(part)}
    others |= {name for match in _SETS.finditer(context.source.text) for name in _WORD.findall(match[0])}
    texts = grouped((part.name, part.text) for part in variables if part.name not in others)
    # a value that contains the value from outside keeps its export
    own = {
        name for name in texts if not _FROM_OUTSIDE.fullmatch(name) and not all(_has_own(name, t) for t in texts[name])
    }
    is_hidden = not all(map(_SETS_NO_RANKS.search, _sourced(context)))
    steps = {part.offset: part for part in context.commands}
    for part in (*context.commands, *variables) if own else ():
        step = steps.get(part.step)
        is_expanded = step is not None and part.offset >= step.end and not part.literal  # in a heredoc
        is_expanded |= context.source.text[part.offset] == "$"  # the batch script can expand the value of the variable
        if not _in_other_shell(part) or is_expanded:
            continue
        used = {name for match in _INNER.finditer(" ".join(part.argv) or part.text) for name in match.groups() if name}
        words = step.argv if step and used & own else ()  # such as --export=ALL,NAME
        names = sorted((used & own).difference(*(_WORD.findall(word) for word in words if not re.search(r"\s", word))))
        own.difference_update(names)
        if names:
            yield replace(at(part, ", ".join(names), f"export {' '.join(names)}"), is_certain=not is_hidden)


def _in_other_shell(part: Part) -> bool:
    return part.scope == STEP or part.literal


def _has_own(name: str, text: str) -> bool:
    return re.search(rf"\$(?:{name}\b|\{{{name}\b(?!:?[-=]))", text) is not None


_INNER = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:[}%#/^,\[]|:\d))")
_WORD = re.compile(r"(?<![\w${])[A-Za-z_]\w*")
_SETS = re.compile(r"\b(?:(?:for|select|printf\s+-v)\s+\w+|(?:read|mapfile|readarray|getopts)\b[^;&|<\n]*)")
"""Commands that set a variable without an assignment."""


def large_ports(context: Context) -> Iterator[Hit]:
    """Yield ports that are computed from a number, such as the job ID, and can exceed 65535."""
    for part in context.parts("line"):
        for match in _COMPUTED_PORT.finditer(part.text):
            first, modulus = (int(number) for number in (match[1] or match[4], match[2] or match[3]))
            most = first + min(modulus, 32768 if "RANDOM" in match[0] else modulus) - 1
            if most > 65535:
                place = part.offset + match.start()
                yield Hit(offset=place, end=part.offset + match.end(), detail=f"up to {most}")


_COMPUTED_PORT = re.compile(
    r"(?i:port)\w{0,9}[= ][\"']?[^\s=]{0,60}?\$\(\([^)]{0,60}?"
    r"(?:\b(\d{1,9}) {0,4}\+[^+%)]{1,60}% {0,4}(\d{1,9})|% {0,4}(\d{1,9})[ )]{0,9}\+ {0,4}(\d{1,9}))"
)
