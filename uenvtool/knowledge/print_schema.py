"""The JSON Schema of a kind of file, for editors."""

from __future__ import annotations

import json

from uenvtool.core.errors import BadInput, unknown
from uenvtool.core.result import Result
from uenvtool.knowledge.kinds import KINDS
from uenvtool.knowledge.schema import schema_text


def schema(name: str) -> Result:
    """Return the schema (Draft 2020-12) of a kind of file. Raises BadInput for a kind that has none."""
    known = [kind.name for kind in KINDS]
    if name not in known:
        raise BadInput([unknown("schema", name, known)])
    text = schema_text(name)
    return Result(data=json.loads(text), file=text)
