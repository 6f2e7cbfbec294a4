"""Schedules at the import path of conductor-python. That package calls the workflow of a schedule an agent.

- `schedule`: the schedules of one workflow, with names that are unique only within that workflow.
"""
