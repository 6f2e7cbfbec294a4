"""The token that names the epoch of a coordinator. Workers send the newest token that they have seen.

A token is `<lineage>.<number>.<started>.<signature>`, in hexadecimal digits of fixed width. Tokens with the same
lineage come from copies of one database. If two such tokens are compared as text, the token of the later epoch is the
greater one. Workers only compare and repeat tokens. The signature is made with the secret of the database, so no client
can invent a token.
"""

from __future__ import annotations

LINEAGE_CHARS = 16
#: The maximum length of a token. A longer text is ignored.
MAX_TOKEN_CHARS = 96


def choose_newer_token(known: str | None, heard: str) -> str | None:
    """Return the newer token if both have one lineage, otherwise `heard`. A text that cannot be a token is ignored."""
    if len(heard) > MAX_TOKEN_CHARS or not heard.isascii() or not heard.isprintable():
        return known
    same_lineage = known is not None and known[:LINEAGE_CHARS] == heard[:LINEAGE_CHARS]
    return known if same_lineage and known is not None and known > heard else heard
