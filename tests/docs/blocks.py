"""Reads the code blocks of the README and docs/."""

from __future__ import annotations

from dataclasses import dataclass

from markdown_it import MarkdownIt

from tests.support.project import ROOT


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced code block, with its file, language, first line and text."""

    file: str
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """Return the file and the first line of the block, which identify it even if other text moves."""
        return f"{self.file}: {self.text.splitlines()[0].partition(' #')[0].strip() if self.text else ''}"

    @property
    def is_job(self) -> bool:
        """Return whether the block is a batch script or a part of one."""
        return self.language == "sh" and ("#SBATCH" in self.text or "srun " in self.text)


def read_blocks() -> list[Block]:
    """Return all blocks in the order of the files."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [
        Block(file=str(path.relative_to(ROOT)), line=token.map[0] + 1, language=token.info.strip(), text=token.content)
        for path in paths
        for token in MarkdownIt().parse(path.read_text(encoding="utf-8"))
        if token.type == "fence" and token.map
    ]
