"""Values on the wire: one data model, two lossless forms.

A value is an argument or a result of an environment: ``None``, ``bool``, ``int``,
``float``, ``complex``, ``str``, ``bytes``, ``list``, ``tuple``, ``dict``, NumPy's
arrays and scalars, ``GraphInstance``, ``AutoresetMode`` and Gymnasium's spaces, nested
at will. It describes itself: nothing is looked up in a space. ``decode(encode(x))`` is
x again, in type, dtype, shape, order and every bit. `Unsent` stands for what an info
has besides.

- `gym_http_wire.values.typed` writes JSON, for every JSON parser.
- `gym_http_wire.values.binary` writes a signature and the bytes of the leaves, for
  speed.

Objects of a subclass arrive as their base, and arrays of other libraries as NumPy's;
`losses` lists these. Received bytes need not be trusted.
"""

from gym_http_wire.values.loss_report import losses
from gym_http_wire.values.model import Unsent
from gym_http_wire.values.refusal import BadValue, UnsupportedValue

__all__ = ["BadValue", "Unsent", "UnsupportedValue", "losses"]
