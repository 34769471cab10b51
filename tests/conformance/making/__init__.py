"""Makes the vectors, from Gymnasium, NumPy and by hand, and from none of our code."""

from typing import Any

Case = dict[str, Any]
