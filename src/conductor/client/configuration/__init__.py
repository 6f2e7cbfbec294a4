"""Which server, how to reach it, and what an option is.

In reading order:

- `configuration`: the server and the way to it, as one object.
- `connection_options`: the table of options behind it.
- `option`: what an option is, for connections and workers alike: parsing, defaults, environment variables.
- `near_misses`: the warning about a variable that was meant to set an option and sets nothing.
- `settings`: the access key, and where metrics go.
"""
