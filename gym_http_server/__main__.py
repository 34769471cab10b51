"""``python -m gym_http_server`` is ``gym-http-server``."""

from gym_http_server.cli import main

if __name__ == "__main__":
    main(prog_name="gym-http-server")
