"""Helpers at the path where conductor-python has them."""
