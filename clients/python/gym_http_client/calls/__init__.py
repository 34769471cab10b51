"""`Client` and its methods, by topic."""
