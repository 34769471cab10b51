"""The gunicorn worker: gevent's, with limits on the resources that a client uses.

::

    worker            accepts, serves, stops; closes connections that are overdue
     ├─ client_socket   what a connection waits for, and until when
     ├─ parser          requests that know how much of their body is unread
     ├─ fast_request    complete, plain requests, read and answered without gunicorn
     ├─ error_answers   errors as JSON, for requests that no application received
     └─ tls             TLS, by a relay
"""
