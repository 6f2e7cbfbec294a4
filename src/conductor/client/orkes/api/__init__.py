"""Generated classes of conductor-python for what only some servers have."""
