"""External environments: the conversation of a server and an environment elsewhere.

The environment opens the connection, says `greetings.Hello`, is told
`greetings.Welcome`, and from then on is asked, one request at a time. Bytes become
messages in `carriers`; what a message says is in `texts` (JSON) and `binaries`. Nothing
here does I/O, and both sides use it.
"""
