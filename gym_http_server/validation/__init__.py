"""Checks a server that claims this API, ours or another's.

::

    run               the groups one after the other, and what comes of it
     └─ groups/       what is checked, a topic each
         ├─ streams   a stream of an instance; sockets: the WebSocket that it is
         ├─ target    the server: its capabilities, its instances
         │   ├─ calls       one exchange of HTTP
         │   └─ document    the OpenAPI document, which every answer is held against
         ├─ binary, typed   values without loss, read into
         │   └─ forms       values as they can be compared
         ├─ plain     values as plain JSON has them
         └─ vectors   the cases that all clients are checked with, too
    report            what passed, what is wrong, and what is merely absent
    checks            one check, and how it ends

It stands on none of the code that answers requests, and takes values apart itself:
what encoder and decoder have wrong together is found all the same.
"""
