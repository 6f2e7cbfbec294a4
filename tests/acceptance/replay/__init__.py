"""Plays a request script on two servers and compares their answers."""
