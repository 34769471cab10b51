"""The broker: the process where environments that live elsewhere wait to be taken."""
