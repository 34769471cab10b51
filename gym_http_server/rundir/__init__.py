"""The run directory: the sockets and files that the processes of one server share.

::

    RUN/                     0700, or 0710 with --host-user
     ├─ lock                 locked while the launcher lives
     ├─ control.sock         requests to the launcher
     ├─ supervisor.sock      requests to the supervisor
     ├─ broker.sock          requests to the broker, once there is one
     ├─ relay.sock           requests to the relay, once there is one
     ├─ serving              renamed to draining when no new instances are made
     ├─ waiting              renamed to stopping when no request may wait any more
     ├─ tickets/             unused tickets
     ├─ trash/               directories of ended instances, until they are removed
     ├─ tango                ID of the instance that an agent of Tango's had last
     └─ 3c657dbc/            an instance
         ├─ host.sock        requests to its host
         ├─ status           the host's status page
         ├─ log              output of the environment
         ├─ work/  tmp/      the host's working and temporary directories
"""
