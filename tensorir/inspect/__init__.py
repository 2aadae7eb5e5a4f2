"""Looking into programs: every named intermediate on its own interval, as xarray.

>>> import numpy as np
>>> import tensorir as ti
>>> f = ti.parse('''
... f(out: tensor<float, I[1:4]>, x: tensor<float, I[0:5]>) {
...   out ← let rise = ⟪I, 1⟫(x) - x; rise - ⟪I, -1⟫(rise);
... }''')
>>> seen = ti.compile(f).inspect(x=np.array([0.0, 1.0, 4.0, 9.0, 16.0]))
>>> seen["rise"].values.tolist(), seen["rise"].coords["I"].values.tolist()
([1.0, 3.0, 5.0, 7.0], [0, 1, 2, 3])
"""

from __future__ import annotations

from tensorir.inspect.intermediates import Inspection, Intermediate, inspect, observed

__all__ = ["Inspection", "Intermediate", "inspect", "observed"]
