"""Takes out of a text what only its owner may know: tokens, keys, passwords in addresses."""

from __future__ import annotations

import re

HIDDEN = "(hidden)"
_IN_TEXT = re.compile(
    r"(?P<keep>://[^/\s:@]{0,200}:)[^@\s/]{1,200}(?=@)"
    r"|(?P<name>\b[\w.-]{0,60}(?i:token|secret|passw(?:or)?d|api[_-]?key|access[_-]?key)[\w.-]{0,20}[\"']?\s{0,3}[=:]\s{0,3}[\"']?)[^\s\"',;]+"
    r"|(?P<scheme>\b(?i:bearer|basic)\s)[\w.~+/=-]{8,}"
    r"|\b(?:hf_|ghp_|gho_|ghs_|github_pat_|glpat-|sk-|xox[bpars]-|AKIA|eyJ)[\w.-]{8,}"
)


def without_secrets(text: str) -> str:
    """The text with each secret that shows itself by its form or its name replaced."""
    return _IN_TEXT.sub(lambda found: (found["keep"] or found["name"] or found["scheme"] or "") + HIDDEN, text)
