"""Values that definitions may use in addition to the data of a workflow: secrets and environment values.

In reading order:

- `secrets`: values that workers receive and no client can read; from environment variables and from the API.
- `cipher`: encrypts the secrets in the database, if a key is set.
- `placeholders`: finds the secrets in an input, and inserts their values when a worker gets the task.
- `masking`: removes the values of secrets from the results of system tasks.
- `environment`: values that every client may read.
"""
