"""`/token`: access tokens.

Under the names that conductor-python's generated class has; new programs take `conductor.client.orkes_clients`.
"""

from __future__ import annotations

from typing import Any

from conductor.client.http.api.generated_api import GeneratedApi, generated


class TokenResourceApi(GeneratedApi):
    """`/token`: access tokens. Each is one blocking call."""

    generate_token = generated("POST", "/token", "body", returns=Any)
    get_user_info = generated("GET", "/token/userInfo", returns=Any)
