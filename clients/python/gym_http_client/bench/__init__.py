"""Measures how many steps per second a server executes for its clients.

::

    __main__        python -m gym_http_client.bench URL
     └─ players     processes that step at the same time
     └─ agents  the clients that these processes use
"""
