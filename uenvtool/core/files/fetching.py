"""A small text that is named by its URL, read from there."""

from __future__ import annotations

from uenvtool.core.errors import BadInput, ToolFailed

SECONDS = 30
"""How long an answer is waited for."""
HINT = "download it, and name the file in its place"


def fetched(url: str, most: int) -> bytes:
    """Return what lies at a URL of http or https, at most so many bytes.

    The proxy and the certificates are those that the environment names (https_proxy, SSL_CERT_FILE). Raises BadInput
    if it is too large, or not of http, ToolFailed if it does not come.
    """
    from http.client import HTTPException
    from urllib.request import urlopen

    if not url.lower().startswith(("http://", "https://")):
        raise BadInput("only http and https URLs are read", hint=HINT)
    try:
        with urlopen(url, timeout=SECONDS) as answer:  # noqa: S310  of http or https, as was seen above
            content: bytes = answer.read(most + 1)
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise ToolFailed(f"it cannot be fetched: {getattr(why, 'strerror', None) or why}", hint=HINT) from error
    if len(content) > most:
        raise BadInput(f"larger than {most / 1e6:g} MB", hint=HINT)
    return content
