"""Measures how many steps a server answers, as its clients see it.

::

    __main__        python -m gym_http_client.bench URL
     └─ players     processes that step, all at the same time
         └─ agents  what each of them steps
"""
