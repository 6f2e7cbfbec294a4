"""API classes with the names and methods of those that conductor-python generates from a server's API description."""
