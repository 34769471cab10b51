"""A stand-in for EnvPool, which is large: the part of its interface that we use.

``make envpool`` checks that both behave alike (`tests/envpool/envpool_checks.py`).
"""

from envpool.registration import list_all_envs, make_gymnasium

__all__ = ["list_all_envs", "make_gymnasium"]
