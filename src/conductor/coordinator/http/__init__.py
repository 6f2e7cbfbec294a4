"""From bytes to a call, and back. In reading order:

- `connection`: one connection: bytes become requests, answers become bytes, with limits on both.
- `app`: finds the route, reads the body, calls the handler; every mistake has its answer.
- `origins`: which hosts and web pages may ask.
- `memory_budget`: limits on the memory that large bodies and large answers occupy, over all connections.
- `auth`: a key and a secret for a token, and the check of that token.
- `routes`: the table of routes, one file for each resource.
- `unsupported_routes`: what Conductor has and this coordinator has not, refused by name.
- `answers`: what each route answers with.
- `web_ui`: the files of the page, which is a client like any other.
- `api_docs`: the OpenAPI document, drawn from that table.
"""
