"""gym3's interface for vectors of environments: `observe`, `act`, and no reset.

`Gym3Env` is a real ``gym3.Env``, and its spaces are gym3's own types, where gym3 is
installed. Otherwise, classes with the same names and attributes replace these.
"""

from gym_http_client.gym3.env import Gym3Env
from gym_http_client.gym3.types import (
    DictType,
    Discrete,
    Real,
    TensorType,
    ValType,
    discrete_scalar,
    type_of,
)

__all__ = [
    "DictType",
    "Discrete",
    "Gym3Env",
    "Real",
    "TensorType",
    "ValType",
    "discrete_scalar",
    "type_of",
]
