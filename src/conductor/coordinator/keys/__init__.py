"""Keys for the API, and the roles that limit them. In reading order:

- `roles`: the roles, the access levels of routes, and the identity of a request.
- `key_store`: the keys in the database, and the current ones in memory.
- `tokens`: signed tokens, which a client gets for a key and its secret.
"""
