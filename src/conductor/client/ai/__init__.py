"""Schedules as conductor-python's agents have them; an agent is a workflow here:

- `schedule`: a schedule of one workflow under a short name, and such a schedule as a server keeps it.
"""
