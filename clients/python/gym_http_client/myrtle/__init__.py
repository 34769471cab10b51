"""Trials of agents in the style of Myrtle, against worlds that do not wait for them.

::

    __main__         gym-http-server trial AGENT WORLD
     └─ bench        run(Agent, World): one trial
         ├─ agent_process  the agent, in a process of its own
         ├─ spaces         arrays of sensors and actions, for any Gymnasium spaces
         ├─ recording      a row of SQLite for each update
         └─ plot           a picture of recorded trials; the only part with Matplotlib
    agents           random, single-action, greedy and tabular Q

An agent has a method ``run()`` and two queues. It gets dicts with ``sensors`` and
``rewards`` from ``sensor_q``, and puts dicts with ``actions`` into ``action_q``.
"""
