"""A family of environments that need a library of the system."""

raise ImportError("EnvPool Away requires the system library libaway")
