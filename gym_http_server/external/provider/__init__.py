"""A provider in one file, for environments with another Python than the server's.

`gym_serve_stdio.py` is executed by other Pythons, and imported by nothing here.
"""

import os

__all__ = ["PATH"]

#: Path of the file.
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gym_serve_stdio.py")
