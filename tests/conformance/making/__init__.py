"""Makes the vectors from Gymnasium, NumPy and literals, without the code under test."""

from typing import Any

Case = dict[str, Any]
