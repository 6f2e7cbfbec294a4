"""Configurations of queues through which a server sends and receives events."""
