"""The configuration of the connection to a server, and the options of workers.

In reading order:

- `configuration`: the server and the connection to it, as one object.
- `connection_options`: the table of its options.
- `option`: one option of a connection or a worker: parsing, default, environment variables.
- `near_misses`: warnings about environment variables with a mistyped name.
- `settings`: the access key and the metrics settings.
"""
