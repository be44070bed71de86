"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# The same examples in every run, however slow the machine is. `make soak` tries others at random.
settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")
