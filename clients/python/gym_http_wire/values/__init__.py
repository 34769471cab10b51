"""Values on the wire: one data model, two forms that lose nothing.

A value is what an environment takes or gives: ``None``, ``bool``, ``int``, ``float``,
``str``, ``bytes``, ``list``, ``tuple``, ``dict``, NumPy's arrays and scalars,
``GraphInstance``, ``AutoresetMode`` and Gymnasium's spaces, nested at will. It says
itself what it is: nothing is looked up in a space. ``decode(encode(x))`` is x again, in
type, dtype, shape, order and every bit.

- `gym_http_wire.values.typed` writes JSON, for anyone with a JSON parser.
- `gym_http_wire.values.binary` writes a signature and the bytes that it tells of, for
  speed.

Objects of a subclass arrive as their base, and arrays of other libraries as NumPy's;
`losses` tells where. Bytes that come in need not be trusted.
"""

from gym_http_wire.values.loss_report import losses
from gym_http_wire.values.refusal import BadValue, UnsupportedValue

__all__ = ["BadValue", "UnsupportedValue", "losses"]
