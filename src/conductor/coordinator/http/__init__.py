"""The HTTP layer of the coordinator. It parses requests, calls their handlers and sends the answers. In reading order:

- `tls`: the certificate of the coordinator, which is loaded again when its files change.
- `connection`: parses the requests of one connection and writes the answers, within limits of time and memory.
- `body`: receives the body of a request within limits, and notices when its client disconnects.
- `app`: checks a request, finds its route, reads its body, calls the handler and answers errors.
- `origins`: the hosts and web pages that may send requests.
- `memory_budget`: limits on the memory of large bodies and large answers, over all connections.
- `auth`: issues tokens for a key and a secret, and finds the identity of a request.
- `permissions`: permission checks that need more than the route, such as the task type.
- `routing`: routes, and the table that finds the route of a path.
- `request`: a request as handlers read it: typed access to path, query, headers and JSON body.
- `answer`: the values that handlers return.
- `routes`: the handlers, one module per resource.
- `unsupported_routes`: paths of Conductor that this coordinator does not support.
- `documented_answers`: the type of each route's answer, for the OpenAPI document.
- `web_ui`: the files of the web UI.
- `api_docs`: the OpenAPI document, generated from the routes.
"""
