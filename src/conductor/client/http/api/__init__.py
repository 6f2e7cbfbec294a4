"""The API classes that conductor-python generates from the description of a server's API."""
