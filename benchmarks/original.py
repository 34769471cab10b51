"""A rebuilt gym-http-api, the predecessor of this server.

Environments are in the process of Flask's development server, which answers each
request with JSON, on a new thread. The client sends its requests with a ``requests``
session. Gymnasium and the other packages have the same versions as for our server.

``python -m benchmarks.original`` runs the server.
"""

from __future__ import annotations

import json
import logging
import uuid
from typing import Any
from urllib.parse import urljoin

import requests

__all__ = ["Client", "main"]


class Client:
    """The original's client: each method sends one request."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._session = requests.Session()
        self._session.headers.update({"Content-type": "application/json"})

    def create(self, env_id: str, seed: int) -> str:
        """Create an instance and return its ID."""
        answer = self._post("/v1/envs/", {"env_id": env_id, "seed": seed})
        return str(answer["instance_id"])

    def reset(self, instance_id: str) -> Any:
        """Begin an episode and return the observation."""
        return self._post(f"/v1/envs/{instance_id}/reset/", None)["observation"]

    def step(self, instance_id: str, action: Any, render: bool = False) -> list[Any]:
        """Take a step and return observation, reward, done and info."""
        body = {"action": action, "render": render}
        answer = self._post(f"/v1/envs/{instance_id}/step/", body)
        return [answer[name] for name in ("observation", "reward", "done", "info")]

    def close(self, instance_id: str) -> None:
        """End an instance."""
        self._post(f"/v1/envs/{instance_id}/close/", None)

    def _post(self, route: str, body: Any) -> Any:
        url = urljoin(self._base, route)
        # The original had no time limit, which would be additional work.
        response = self._session.post(url, data=json.dumps(body))
        response.raise_for_status()
        return response.json() if response.content else None


class _Envs:
    """The environments, by instance ID."""

    def __init__(self) -> None:
        self._envs: dict[str, Any] = {}
        self._first_seeds: dict[str, int | None] = {}

    def create(self, env_id: str, seed: int | None) -> str:
        import gymnasium

        instance_id = uuid.uuid4().hex[:8]
        self._envs[instance_id] = gymnasium.make(env_id)
        self._first_seeds[instance_id] = seed
        return instance_id

    def reset(self, instance_id: str) -> Any:
        env = self._envs[instance_id]
        observation, _ = env.reset(seed=self._first_seeds.pop(instance_id, None))
        return env.observation_space.to_jsonable(observation)

    def step(self, instance_id: str, action: Any) -> dict[str, Any]:
        env = self._envs[instance_id]
        observation, reward, terminated, truncated, info = env.step(action)
        return {
            "observation": env.observation_space.to_jsonable(observation),
            "reward": reward,
            "done": terminated or truncated,
            "info": info,
        }

    def close(self, instance_id: str) -> None:
        self._envs.pop(instance_id).close()


def _application() -> Any:
    from flask import Flask, jsonify, request

    app = Flask(__name__)
    envs = _Envs()

    @app.post("/v1/envs/")
    def create() -> Any:
        given = request.get_json()
        return jsonify(instance_id=envs.create(given["env_id"], given.get("seed")))

    @app.post("/v1/envs/<instance_id>/reset/")
    def reset(instance_id: str) -> Any:
        return jsonify(observation=envs.reset(instance_id))

    @app.post("/v1/envs/<instance_id>/step/")
    def step(instance_id: str) -> Any:
        return jsonify(**envs.step(instance_id, request.get_json()["action"]))

    @app.post("/v1/envs/<instance_id>/close/")
    def close(instance_id: str) -> Any:
        envs.close(instance_id)
        return "", 204

    return app


def main() -> None:
    """Serve on a free port until killed."""
    from werkzeug.serving import make_server

    # As in the original; a log line for each request would slow it down.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # The same as `app.run(threaded=True)`, but it makes the port known.
    server = make_server("127.0.0.1", 0, _application(), threaded=True)
    print(f"Listening on http://127.0.0.1:{server.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
