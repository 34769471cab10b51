"""The gunicorn worker: gevent's, with bounds on what a client may take.

::

    worker          accepts, serves, stops; closes whatever is overdue
     ├─ client_socket   what a connection waits for, and until when
     ├─ parser          requests that know how much of their body is unread
     ├─ whole           requests that came whole and plain, read without gunicorn
     ├─ replies         their answers, in one piece
     └─ answers         errors as JSON, for requests that no application saw
"""

from __future__ import annotations

from gym_http_server.gunicorn_worker.worker import Worker

__all__ = ["Worker"]
