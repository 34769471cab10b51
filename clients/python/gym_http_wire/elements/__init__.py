"""Elements of spaces, and masks for sampling, from plain JSON.

A thin client sends an action in the JSON of its language. A reader, made once for a
space, converts it to an element of the type that the space samples, or raises with the
error and its position.
"""

from gym_http_wire.elements.json_types import LARGEST, JSONType, json_type
from gym_http_wire.elements.masks import mask_reader
from gym_http_wire.elements.membership import Membership, membership
from gym_http_wire.elements.readers import bounded_reader, reader, under
from gym_http_wire.elements.refusal import NotAnElement

__all__ = [
    "LARGEST",
    "JSONType",
    "Membership",
    "NotAnElement",
    "bounded_reader",
    "json_type",
    "mask_reader",
    "membership",
    "reader",
    "under",
]
