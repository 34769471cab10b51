"""Checks a server that claims this API, ours or another's.

::

    run               runs the groups one after the other, and reports the results
     └─ groups/       the checks, by topic
         ├─ streams   a stream of an instance; websocket: its WebSocket
         ├─ target    the server: its capabilities, its instances
         │   ├─ calls       one exchange of HTTP
         │   └─ document    the OpenAPI document, which every answer is compared with
         ├─ binary, typed   values without loss, read into
         │   └─ forms       values as they can be compared
         ├─ plain     values as plain JSON has them
         └─ vectors   the cases that all clients are checked with, too
    checks            one check, and how it ends

This package uses none of the code that answers requests, and decodes values itself. So
it finds errors that encoder and decoder share.
"""
