"""Takes out of a text what only its owner may know: tokens, keys, passwords in addresses and on command lines."""

from __future__ import annotations

import re

HIDDEN = "(hidden)"
_NAME = (
    r"(?:token(?!iz|s\b|s_|_count|_len|_ids?\b)|secret|passw(?:or)?d|passphrase|pwd|jwt|credentials?|signature|cookie"
    r"|(?:api|access|private)[_-]?key(?:[_-]id)?|session[_-]?id)[\w.-]{0,20}"
)
_VALUE = r"(?:\"[^\"\r\n]{1,4000}\"?|'[^'\r\n]{1,4000}'?|[^\s\"';&]{1,4000})"
_ISSUERS = (
    r"hf_|gh[pousr]_|github_pat_|gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent)-|npm_|pypi-|nvapi-|do[op]_v1_|shpat_|whsec_"
    r"|[spr]k[_-](?:live|test|ant|proj|or)[\w-]|sk-|SG\.|xox[abeoprs]-|xapp-|ya29\.|AIza|dckr_pat_|lin_api_|rubygems_"
    r"|tskey-|hvs\.|AGE-SECRET-KEY-"
)
"""What tokens begin with, as those who issue them say (the rules of gitleaks and detect-secrets name the same)."""
_MAY_HAVE = re.compile(
    r"://|(?i:token|secret|passw|passp|pwd|jwt|credential|signature|cookie|key|session|authoriz|bearer|basic|login)"
    rf"|{_ISSUERS}|A[KSBC][IC]A|eyJ"
)
_IN_TEXT = re.compile(
    r"(?P<url>://)[^/\s@\"']{1,400}(?=@)"
    r"|(?P<header>(?i:authorization|\bcookie|set-cookie)[\"']?\s{0,3}[:=]\s{0,3}[\"']?)[^\r\n\"']{1,4000}"
    rf"|(?P<named>(?i:{_NAME}|\bx-[\w-]{{0,40}}key)[\"']?\s{{0,3}}[=:]\s{{0,3}}){_VALUE}"
    rf"|(?P<option>(?i:(?<![\w-])--?[\w-]{{0,40}}?{_NAME})[ \t]{{1,3}}(?!-)){_VALUE}"
    r"|(?P<after>(?i:\b(?:bearer|basic|wandb login(?: --relogin)?|docker login -u \S{1,100} -p)[ \t]{1,3}))"
    r"[^\s\"',;]{6,4000}"
    rf"|\b(?:{_ISSUERS})[\w./+~=-]{{6,4000}}"
    r"|\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,32}\b"
    r"|\beyJ[\w-]{6,4000}(?:\.[\w-]{1,4000}){0,2}"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,8000}(?:-----END [A-Z ]{0,40}-----)?"
)


def without_secrets(text: str) -> str:
    """Return the text with each secret that shows itself by its form or its name replaced."""
    if _MAY_HAVE.search(text) is None:  # most lines, for which the whole pattern takes long
        return text
    return _IN_TEXT.sub(lambda found: (found[found.lastgroup] if found.lastgroup else "") + HIDDEN, text)
