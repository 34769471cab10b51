"""Reinforcement-learning environments as a service, over HTTP.

This package is the server. It never imports ``gym_http_client``; both import
``gym_http_wire``, the formats of messages between them, and ``gym_http_core``, which
drives an environment.
"""

__version__ = "0.1.0"
