"""The errors of calls to a server, under their paths in conductor-python."""
