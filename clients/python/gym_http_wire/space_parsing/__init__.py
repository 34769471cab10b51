"""Parses descriptions of spaces, also from untrusted sources.

A description by `gym_http_wire.spaces.describe` becomes an exactly equal space.
Descriptions written by hand may omit fields that are optional in Gymnasium's
constructors.
"""

from gym_http_wire.space_parsing.builders import parse_space
from gym_http_wire.space_parsing.fields import MAX_BYTES, BadDescription

__all__ = ["MAX_BYTES", "BadDescription", "parse_space"]
