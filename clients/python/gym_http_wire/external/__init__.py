"""The protocol between a server and an external environment, for both sides.

The environment connects and sends `handshake.Hello`, and the server replies with
`handshake.Welcome`. From then on the server sends requests, one at a time. `framing`
splits bytes into messages; `json_dialect` and `binary_dialect` decode these. Nothing
here does I/O.
"""
