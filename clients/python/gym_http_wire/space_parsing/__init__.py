"""Rebuild Gymnasium spaces from their descriptions, which nobody needs to trust.

What `gym_http_wire.spaces.describe` wrote comes back exactly. Descriptions written by
hand may leave out what Gymnasium's constructors have defaults for.
"""

from gym_http_wire.space_parsing.builders import parse_space
from gym_http_wire.space_parsing.fields import MAX_BYTES, BadDescription

__all__ = ["MAX_BYTES", "BadDescription", "parse_space"]
