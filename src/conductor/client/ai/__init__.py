"""Schedules under their path in conductor-python, where the workflow of a schedule is an agent.

- `schedule`: the schedules of one workflow under short names.
"""
