"""Arrays of other libraries whose memory is that of a GPU: CuPy's, and those of PyTorch and Numba that lie there.

NumPy has no view of them, and CuPy's refuse to be copied unasked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.runtime.assembly import device_array

__all__ = ["host_array", "lies_on_device"]


def lies_on_device(value: Any) -> bool:
    """Whether an array has a GPU's memory, as the interface says that all such arrays have."""
    return not isinstance(value, np.ndarray) and hasattr(value, "__cuda_array_interface__")


def host_array(value: Any) -> np.ndarray:
    """An array as NumPy's: a copy of what is on a device."""
    return np.asarray(device_array(value) if lies_on_device(value) else value)
