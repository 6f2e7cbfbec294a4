from conductor.client.http.api.generated_api import GeneratedApi, generated


class TokenResourceApi(GeneratedApi):
    """Access tokens."""

    generate_token = generated("POST", "/token", "body")
    get_user_info = generated("GET", "/token/userInfo")
