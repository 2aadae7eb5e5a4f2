"""How tests find packages, and how Hypothesis draws: the same programs in every ordinary run."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

# folders of tests have the names of the packages that they test, which come first
sys.path.insert(0, str(Path(__file__).parents[1]))

settings.register_profile("ordinary", derandomize=True, database=None, deadline=None, suppress_health_check=HealthCheck)
settings.load_profile("ordinary")
