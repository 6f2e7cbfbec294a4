"""Errors of calls to a server, at the path where conductor-python has them."""
