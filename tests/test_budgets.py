"""The size of each folder: lines and modules stay within `budgets.txt`, whose numbers only go down.

python -m tests.test_budgets        # the table of today, to be kept where it is smaller
"""

from pathlib import Path

import pytest

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


@pytest.mark.parametrize("folder", BUDGETS)
def test_a_folder_stays_within_its_budget(folder: str) -> None:
    lines, modules = sizes(list(BUDGETS))[folder]
    most_lines, most_modules = BUDGETS[folder]
    assert lines <= most_lines, f"{folder} has {lines} lines, and {most_lines} at most: something else has to go"
    assert modules <= most_modules, f"{folder} has {modules} modules, and {most_modules} at most: extend a chapter"


if __name__ == "__main__":
    for folder, (lines, modules) in sizes(list(BUDGETS)).items():
        print(f"{folder:28} {lines:6} {modules:4}")
