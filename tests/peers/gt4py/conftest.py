"""GT4Py switches JAX's 64-bit types on for the whole process when it is imported; other tests count on their absence."""

import contextlib
import warnings

import jax

_before = jax.config.jax_enable_x64
# what its dependencies warn of is theirs; the tests of this folder skip where it is not installed
with contextlib.suppress(ImportError), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import gt4py.next  # noqa: F401
jax.config.update("jax_enable_x64", _before)
