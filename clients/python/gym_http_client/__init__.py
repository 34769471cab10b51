"""Gymnasium environments on a gym_http_server, from Python."""

from gym_http_client.calls.client import Client
from gym_http_client.envs.in_process import check_wire, through_wire
from gym_http_client.envs.real_time_env import RealTimeEnv
from gym_http_client.envs.remote_env import RemoteEnv
from gym_http_client.envs.remote_vector_env import RemoteVectorEnv
from gym_http_client.envs.server import Server
from gym_http_client.errors import (
    AttributeNotSent,
    NotRealTime,
    Paused,
    ServerError,
    ServerTimeout,
    ServerUnreachable,
    UnexpectedAnswer,
    WorldEnded,
)
from gym_http_client.http.retries import Retries
from gym_http_client.registration import register
from gym_http_client.resuming import resume
from gym_http_client.serving import serve_agents, serve_env
from gym_http_wire.opaque import RemoteSpace
from gym_http_wire.values import Unsent

__all__ = [
    "AttributeNotSent",
    "Client",
    "NotRealTime",
    "Paused",
    "RealTimeEnv",
    "RemoteEnv",
    "RemoteSpace",
    "RemoteVectorEnv",
    "Retries",
    "Server",
    "ServerError",
    "ServerTimeout",
    "ServerUnreachable",
    "UnexpectedAnswer",
    "Unsent",
    "WorldEnded",
    "check_wire",
    "resume",
    "serve_agents",
    "serve_env",
    "through_wire",
]

register()
