"""The errors of calls to a server, at the import paths that they have in conductor-python."""
