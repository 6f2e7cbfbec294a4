"""Configurations of queues that a server sends events to and receives them from."""
