"""The notebooks with what they show: `python docs/notebooks.py` runs them and keeps their outputs.

What is kept does not depend on where and when it was made: no paths, no addresses, no random names. What a fresh run
must give again is `compared`: texts and pages without what differs from run to run (times, last digits); of pictures
that matplotlib draws only that they are there.
"""

from __future__ import annotations

import base64
import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["compared", "executed", "stable"]

ROOT = Path(__file__).resolve().parent.parent
PLACES = [
    (re.compile(r"(?:/[\w.+-]+)+/ipykernel_\d+/\d+\.py"), "<cell>"),
    (re.compile(re.escape(str(ROOT))), "."),
    (re.compile(r"(?:/[\w.+-]+)+/site-packages"), "site-packages"),
    (re.compile(re.escape(tempfile.gettempdir()) + r"/[\w./-]+"), "<folder>"),
    (re.compile(r"\bat 0x[0-9a-f]+"), "at 0x0"),
    (re.compile(r"<ipython-input-[\w-]+>"), "<cell>"),
]
NAMES = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
"""The names that xarray's pages give their parts."""
TIMES = re.compile(r" *\d[\d.,]*\s?(?:s|ms|µs|us|ns)\b| *\d[\d.]* times")
"""With the blanks before them, which line up numbers of other lengths."""
DIGITS = re.compile(r"-?\d+\.\d{5,}(?:e[+-]?\d+)?")


def executed(path: Path, folder: Path) -> Any:
    """A notebook after a run from top to bottom in a folder."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def stable(notebook: Any) -> Any:
    """The notebook without what says where and when it ran; bars that are over are no outputs."""
    known: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        return known.setdefault(found[0], f"00000000-0000-0000-0000-{len(known):012x}")

    def text(value: Any) -> Any:
        if isinstance(value, str):
            for pattern, put in PLACES:
                value = pattern.sub(put, value)
            return NAMES.sub(name, value)
        if isinstance(value, list):
            return [text(v) for v in value]
        return {k: v if k == "image/png" else text(v) for k, v in value.items()} if isinstance(value, dict) else value

    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.pop("execution", None)
            cell.outputs = _joined([type(o)(text(dict(o))) for o in cell.outputs if o.get("name") != "stderr"])
            for output in cell.outputs:
                data = output.get("data", {})
                if "image/png" in data:
                    data["image/png"] = _small(data["image/png"])
                if "<script" in "".join(data.get("text/html", "")):
                    data.clear()  # what a library puts on a page when it is imported; nothing of ours runs
            cell.outputs = [o for o in cell.outputs if o.get("data", {"": "shown"}) not in ({}, {"text/plain": ""})]
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def _joined(outputs: list[Any]) -> list[Any]:
    """Outputs in which a stream that came in parts is one."""
    found: list[Any] = []
    for output in outputs:
        if found and output.output_type == "stream" == found[-1].output_type and output.name == found[-1].name:
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def _small(png: str) -> str:
    """A picture in 256 colours, chosen so that none is far from its own."""
    from PIL import Image

    file, whole = io.BytesIO(), Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    whole.quantize(256, method=Image.Quantize.MAXCOVERAGE).save(file, "png", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def compared(notebook: Any) -> list[list[Any]]:
    """By cell the outputs that every run gives."""

    def text(value: Any) -> str:
        whole = "".join(value) if isinstance(value, list) else str(value)
        whole = DIGITS.sub(lambda found: f"{float(found[0]):.4g}", TIMES.sub("…", whole))
        return whole.strip()

    found: list[list[Any]] = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        outputs: list[Any] = []
        for output in cell.outputs:
            if output.output_type == "stream":
                outputs.append((output.name, text(output.text)))
            elif output.output_type == "error":
                outputs.append(("error", output.ename, text(output.evalue)))
            else:
                data = output.data
                outputs.append(sorted((k, "" if k.startswith("image/p") else text(v)) for k, v in data.items()))
        found.append(outputs)
    return found


def main(names: list[str]) -> None:
    import tempfile

    import nbformat

    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        if names and not any(name in path.name for name in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(stable(executed(path, Path(folder))), path)
        print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
