"""Checks a server that claims this API, ours or another's.

::

    run               the groups one after the other, and what comes of it
     └─ groups/       what is checked, a topic each
         ├─ served    the server: its capabilities, its instances, its streams
         │   ├─ calls       one exchange of HTTP
         │   ├─ sockets     one WebSocket
         │   └─ document    the OpenAPI document, which every answer is held against
         ├─ forms     values in typed JSON and in binary, told in the model form
         ├─ plain     values as plain JSON has them
         └─ vectors   the cases that all clients are checked with, too
    report            what passed, what is wrong, and what is merely absent
    checks            one check, and how it ends

It stands on none of the code that answers requests, and takes values apart itself:
what encoder and decoder have wrong together is found all the same.
"""
