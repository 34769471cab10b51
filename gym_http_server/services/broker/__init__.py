"""The broker: the process that holds the free connections of external environments."""
