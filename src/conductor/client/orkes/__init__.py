"""The clients under the paths and names where conductor-python has them."""
