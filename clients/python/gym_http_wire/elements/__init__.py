"""Elements of spaces, and masks for sampling, from plain JSON.

A thin client sends an action in the JSON of its language. A reader, made once for a
space, converts it to an element of the type that the space samples, or raises with the
error and its position.
"""

from gym_http_wire.elements.masks import mask_reader
from gym_http_wire.elements.membership import membership
from gym_http_wire.elements.readers import bounded_reader, reader, under
from gym_http_wire.elements.refusal import NotAnElement
from gym_http_wire.elements.shaped import LARGEST, Shaped, shaped

__all__ = [
    "LARGEST",
    "NotAnElement",
    "Shaped",
    "bounded_reader",
    "mask_reader",
    "membership",
    "reader",
    "shaped",
    "under",
]
