"""API classes of conductor-python that only some servers support."""
