"""The API classes of conductor-python, which it generates from the description of a server's API."""
