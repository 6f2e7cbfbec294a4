"""Servers for the acceptance suite: the coordinator, and the real Conductor on SQLite, Postgres, Redis or as a pair.

    python -m tests.acceptance.servers conductor-postgres

starts one by hand, prints its URL and stops it at Ctrl-C.
"""
