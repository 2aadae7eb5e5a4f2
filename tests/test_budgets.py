"""The size of each folder, and words that nobody searches for: they stay within `budgets.txt`, which only goes down.

python -m tests.test_budgets        # the table of today, to be kept where it is smaller
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TABLE = Path(__file__).with_name("budgets.txt")


def budgets() -> dict[str, tuple[int, int]]:
    """Lines and modules at most, by folder; a folder's own rows are not counted in those above it."""
    rows = [line.split() for line in TABLE.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return {folder: (int(lines), int(modules)) for folder, lines, modules in rows}


def sizes(folders: list[str]) -> dict[str, tuple[int, int]]:
    """Lines and modules of Python of each folder; a file counts for the innermost folder that has a row."""
    counted = {folder: [0, 0] for folder in folders}
    for package in ("tensorir", "lowering", "stencils", "tests"):
        for path in (ROOT / package).rglob("*.py"):
            parents = [p.relative_to(ROOT).as_posix() for p in path.parents if p != ROOT and ROOT in p.parents]
            home = next(p for p in parents if p in counted)
            counted[home][0] += path.read_text(encoding="utf-8").count("\n")
            counted[home][1] += 1
    return {folder: (lines, modules) for folder, (lines, modules) in counted.items()}


BUDGETS = budgets()
QUESTION = re.compile(r"(What|Whether|Where|How|Which)\b")
RIDDLES = {"_apart", "_inside", "_of", "_same", "_told", "as_it_is", "found", "of", "told"}


def words() -> dict[str, tuple[int, int]]:
    """Docstrings that begin with a question word, and definitions of names that say nothing of what they hold."""
    questions = riddles = 0
    for package in ("tensorir", "lowering", "stencils"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.FunctionDef() | ast.ClassDef() | ast.Module():
                        questions += bool(QUESTION.match(ast.get_docstring(node) or ""))
                        riddles += not isinstance(node, ast.Module) and node.name in RIDDLES
                    case ast.Name(name, ast.Store()) | ast.arg(name):
                        riddles += name in RIDDLES
                    case _:
                        pass
    return {"words": (questions, riddles)}


FOLDERS = [folder for folder in BUDGETS if folder != "words"]


def test_folders_stay_within_their_budgets():
    above = {f: size for f, size in sizes(FOLDERS).items() if any(n > m for n, m in zip(size, BUDGETS[f], strict=True))}
    assert not above, f"something else has to go, or a chapter is extended: {above}, and {TABLE.name} allows less"


def test_words_name_their_subjects():
    questions, riddles = words()["words"]
    most_questions, most_riddles = BUDGETS["words"]
    assert questions <= most_questions, "a docstring begins with its subject, a noun of the field"
    assert riddles <= most_riddles, "a name says what it holds"


if __name__ == "__main__":
    for folder, (lines, modules) in (sizes(FOLDERS) | words()).items():
        print(f"{folder:28} {lines:6} {modules:4}")
