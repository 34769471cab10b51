"""Real time: a clock that does not wait for the agent.

`settings` reads what a create request wants. `elastic` and `free_running` are the two
modes: state machines on an injected clock, without I/O, so that tests replay any
timing. Hosts without real time import nothing of this package.
"""
