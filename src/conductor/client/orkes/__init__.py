"""The clients under their paths and names in conductor-python."""
