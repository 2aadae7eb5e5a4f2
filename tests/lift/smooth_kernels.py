"""Small kernels with derivatives, of all sorts that TIR has: names with parameters and their extents, and bodies.

All numbers are float64, but those of `N` and `P`, which are indices.
"""

from pathlib import Path

KERNELS: dict[str, tuple[str, str]] = {}
for _case in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("#---- ")[1:]:
    _title, _, _body = _case.partition("\n")
    _name, _, _params = _title.partition(": ")
    KERNELS[_name] = _params, _body


def text(name: str) -> str:
    """A kernel as TVMScript."""
    params, body = KERNELS[name]
    declared: list[str] = []
    for param in params.split(", "):
        own, *shape = param.split()
        declared.append(f'{own}: T.Buffer(({", ".join(shape)},), "{"int32" if own in "NP" else "float64"}")')
    lines = "\n    ".join(body.strip().split("\n"))
    return f"@T.prim_func\ndef main({', '.join(declared)}):\n    {lines}\n"
