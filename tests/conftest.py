"""How Hypothesis draws: the same programs in every ordinary run, new ones without end under `make fuzz`."""

from hypothesis import HealthCheck, settings

settings.register_profile("ordinary", derandomize=True, database=None, deadline=None, suppress_health_check=HealthCheck)
settings.load_profile("ordinary")
