"""Read elements of spaces, and masks for sampling, out of plain JSON.

A thin client sends an action as its language writes it. A reader, made once for a
space, turns that into the very element that the space itself would have sampled, or
says what is wrong with it and where.
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
