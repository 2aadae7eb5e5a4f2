"""How tests find packages, and how Hypothesis draws: the same programs in every ordinary run."""

import contextlib
import sys
import warnings
from pathlib import Path

import jax
from hypothesis import HealthCheck, settings

# folders of tests have the names of the packages that they test, which come first
sys.path.insert(0, str(Path(__file__).parents[1]))

settings.register_profile("ordinary", derandomize=True, database=None, deadline=None, suppress_health_check=HealthCheck)
settings.load_profile("ordinary")

# GT4Py switches JAX's 64-bit types on for the whole process when it is imported, and our tests count on them off; what
# its dependencies warn of is theirs
_before = jax.config.jax_enable_x64
with contextlib.suppress(ImportError), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import gt4py.next  # noqa: F401
jax.config.update("jax_enable_x64", _before)
