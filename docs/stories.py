"""The page of stories: who did what with it, what they got, and the test that does it again.

Each test of `tests/stories` says in one sentence who does what and gets what; the page is read off their sources.

>>> parted("A geographer who asks for the slope of hills gets NumPy's gradient.")
('A geographer', 'asks for the slope of hills', "gets NumPy's gradient")
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

__all__ = ["parted", "stories", "told"]

STORIES = Path(__file__).resolve().parent.parent / "tests" / "stories"
FORM = re.compile(r"(An? .+?) who (.+?) ((?:gets|is told) .+)\.")


def parted(sentence: str) -> tuple[str, str, str]:
    """Who, what they do, and what they get or are told."""
    found = FORM.fullmatch(sentence)
    if found is None:
        raise ValueError(f"this is no story: {sentence!r}; write 'A ... who ... gets ...' or '... is told ...'.")
    who, did, got = found.groups()
    return who, did, got


def told() -> dict[str, tuple[str, dict[str, str]]]:
    """By the name of a file, what its stories are about, and the sentence of each test by its name."""
    files: dict[str, tuple[str, dict[str, str]]] = {}
    for path in sorted(STORIES.glob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tests = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]
        sentences = {t.name: " ".join((ast.get_docstring(t) or "").split()) for t in tests}
        files[path.name] = " ".join((ast.get_docstring(tree) or "").split()), sentences
    return files


def stories(folder: Path) -> None:
    """The page, with a table for each file."""
    files = told()
    count = sum(len(sentences) for _, sentences in files.values())
    page = [
        "# Stories\n",
        f"What people do with fields on an ordinary day: {count} stories, each a test that runs with every change and"
        " compares with what xarray, NumPy, SciPy or pandas gives, or with the whole text of a message.\n",
    ]
    for file, (about, sentences) in files.items():
        title = file.removeprefix("test_").removesuffix(".py").removesuffix("_stories").replace("_", " ").capitalize()
        page += [
            f"## {title}\n",
            f"{about} (`tests/stories/{file}`)\n",
            "| who | does | and | test |",
            "|---|---|---|---|",
        ]
        for name, sentence in sentences.items():
            who, did, got = (cell.replace("|", "\\|") for cell in parted(sentence))
            # a name may be broken behind its words
            page.append(f"| {who} | {did} | {got} | <code>{name.replace('_', '&#95;<wbr>')}</code> |")
        page.append("")
    (folder / "stories.md").write_text("\n".join(page), encoding="utf-8")
