"""``python -m gym_http_server`` is ``gym-http-server``."""

import sys

if not sys.flags.safe_path:
    # The working directory, which may contain modules of other users.
    del sys.path[0]

from gym_http_server.commands.cli import main

if __name__ == "__main__":
    main(prog_name="gym-http-server")
