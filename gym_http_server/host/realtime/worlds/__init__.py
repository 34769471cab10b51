"""Worlds: what env IDs as ``world/pendulum`` and ``interface/MODULE:CLASS`` name.

::

    making           an env ID becomes a world
     ├─ running      classes with run() and queues, in a process
     ├─ adapters     rtgym's interfaces, and classes with reset and step
     └─ shipped      the worlds that the server has

Modules are imported by the host only. The supervisor has checked before that they are
allowed.
"""

from gym_http_server.host.realtime.worlds.adapters import LimitedWorld
from gym_http_server.host.realtime.worlds.making import NewWorld, make
from gym_http_server.host.realtime.worlds.running import RunningWorld

__all__ = ["LimitedWorld", "NewWorld", "RunningWorld", "make"]
