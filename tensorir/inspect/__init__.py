"""Looking into programs: intermediates as xarray, pages for notebooks, pictures.

>>> import numpy as np
>>> import tensorir as ti
>>> f = ti.parse('''
... f(out: tensor<float, I[1:4]>, x: tensor<float, I[0:5]>) {
...   out ← let rise = ⟪I, 1⟫(x) - x; rise - ⟪I, -1⟫(rise);
... }''')
>>> seen = ti.compile(f).inspect(x=np.array([0.0, 1.0, 4.0, 9.0, 16.0]))
>>> seen["rise"].values.tolist(), seen["rise"].coords["I"].values.tolist()
([1.0, 3.0, 5.0, 7.0], [0, 1, 2, 3])

Pictures are `Picture`s: notebooks show them, `print` says the same in words, `save` writes a file.

>>> print(ti.inspect.footprint(f, at={"I": 2}))
out at I = 2 reads
x: 3 points of I[1:4]; it is linear in them
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tensorir.inspect.intermediates import Inspection, Intermediate, inspect, observed

if TYPE_CHECKING:
    from tensorir.inspect.devices import distribution
    from tensorir.inspect.flow import before_after, dataflow
    from tensorir.inspect.footprints import footprint
    from tensorir.inspect.formulas import Equations, latex
    from tensorir.inspect.needed_points import domains
    from tensorir.inspect.picture import Picture
    from tensorir.inspect.tables import table

__all__ = [
    "Equations", "Inspection", "Intermediate", "Picture", "before_after", "dataflow", "distribution", "domains",
    "footprint", "inspect", "latex", "observed", "table",
]  # fmt: skip

_PICTURES = {
    "Equations": "formulas", "Picture": "picture", "before_after": "flow", "dataflow": "flow",
    "distribution": "devices", "domains": "needed_points", "footprint": "footprints", "latex": "formulas",
    "table": "tables",
}  # fmt: skip
"""What loads on first use, and the files that it is in."""


def __getattr__(name: str) -> Any:
    if name in _PICTURES:
        return getattr(importlib.import_module(f"tensorir.inspect.{_PICTURES[name]}"), name)
    raise AttributeError(f"module 'tensorir.inspect' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
