"""Links of the documents, checked without a network: `python -m tests.documents.links`.

Every relative link of a page or of a notebook leads to a file of the repository, and every anchor to a heading of it.

>>> slug("`make_tuple`, and more: a test")
'make_tuple-and-more-a-test'
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def slug(heading: str) -> str:
    """The anchor of a heading: lower case, blanks as hyphens, no punctuation."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def text_of(path: Path) -> str:
    """The Markdown of a page, or of the cells of a notebook, without code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return FENCE.sub("", text)


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings."""
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", text_of(path), re.MULTILINE)}


def broken(path: Path) -> Iterator[str]:
    """The links of a page that lead nowhere."""
    for target in LINK.findall(text_of(path)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        to = (path.parent / name).resolve() if name else path
        if not to.exists():
            yield f"{path.relative_to(ROOT)}: {target}: there is no such file"
        elif anchor and anchor not in anchors(to):
            yield f"{path.relative_to(ROOT)}: {target}: there is no such heading"


def pages() -> list[Path]:
    """The documents of the repository."""
    listed = ["git", "ls-files", "-co", "--exclude-standard", "*.md", "*.ipynb"]
    return [ROOT / name for name in subprocess.check_output(listed, cwd=ROOT, text=True).splitlines()]


def main() -> int:
    found = [problem for page in pages() for problem in broken(page)]
    print("\n".join(found) or "every link leads somewhere")
    return len(found)


if __name__ == "__main__":
    sys.exit(main())
