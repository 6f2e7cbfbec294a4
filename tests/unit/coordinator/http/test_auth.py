"""Keys, secrets and tokens of the coordinator."""

from __future__ import annotations

import asyncio
import json
import logging
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from conductor.coordinator.http import auth
from conductor.coordinator.http.auth import Auth
from conductor.coordinator.keys.key_store import Keys
from conductor.coordinator.keys.tokens import TOKEN_LIFETIME_S, Tokens
from conductor.coordinator.request_errors import ApiError
from conductor.coordinator.server_metrics import Tally
from conductor.testing import FakeClock


def with_token(token: bytes) -> Any:
    return {b"x-authorization": token}


def asking(secret: str, address: str = "192.0.2.1") -> Any:
    body = json.dumps({"keyId": "key", "keySecret": secret})
    return SimpleNamespace(json=lambda kind: msgspec.json.decode(body, type=kind), address=address)


async def refused(door: Auth, secret: str = "wrong") -> None:
    with pytest.raises(ApiError) as error:
        await door.issue_token(asking(secret))
    assert error.value.status == 401


async def until_sleeping(clock: FakeClock, count: int) -> None:
    while clock.sleeping < count:
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def door(clock: FakeClock) -> Auth:
    salt = bytes(16)
    keys = Keys(salt, clock)
    keys.configure("key", "secret")
    return Auth(keys, Tokens(salt, keys, clock, {}), Tally(), clock)


@pytest.mark.parametrize(
    "token", [b"1" * 4301 + b".x", b"1" * 4301, b"9" * 13 + b".x", b"", b"\xb2.x", b"-1.x", b"1.\xff"]
)
def test_an_invalid_token_is_a_401(door: Auth, token: bytes) -> None:
    with pytest.raises(ApiError) as error:
        door.identify(with_token(token))
    assert error.value.status == 401


async def test_a_token_expires_after_an_hour(door: Auth, clock: FakeClock) -> None:
    token = json.loads((await door.issue_token(asking("secret"))).body)["token"].encode()
    door.identify(with_token(token))
    clock.advance(TOKEN_LIFETIME_S + 1)
    with pytest.raises(ApiError, match="expired"):
        door.identify(with_token(token))


async def test_after_five_wrong_secrets_wrong_and_right_ones_are_delayed_equally(door: Auth, clock: FakeClock) -> None:
    for _ in range(auth.FREE_FAILURES):
        await refused(door)
    wrong, right = asyncio.create_task(refused(door)), asyncio.create_task(door.issue_token(asking("secret")))
    await until_sleeping(clock, 2)
    clock.advance(auth.DELAY_S)
    await wrong
    assert (await right).status == 200


async def test_a_limited_number_of_requests_of_an_address_is_delayed_and_others_are_rejected(
    door: Auth, clock: FakeClock
) -> None:
    for _ in range(auth.FREE_FAILURES):
        await refused(door)
    waiting = [asyncio.create_task(refused(door)) for _ in range(auth.MAX_DELAYED)]
    await until_sleeping(clock, auth.MAX_DELAYED)
    for secret in ("wrong", "secret"):
        with pytest.raises(ApiError, match="too many wrong secrets") as error:
            await door.issue_token(asking(secret))
        assert error.value.status == 429
    assert (await door.issue_token(asking("secret", "192.0.2.2"))).status == 200
    clock.advance(auth.DELAY_S)
    await asyncio.gather(*waiting)
    clock.advance(auth.FAILURES_WITHIN_S + 1)
    assert (await door.issue_token(asking("secret"))).status == 200


async def test_failures_are_remembered_for_a_limited_number_of_addresses(
    door: Auth, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "MAX_ADDRESSES", 2)
    for _ in range(auth.FREE_FAILURES):
        await refused(door)
    for number in range(2):
        with pytest.raises(ApiError):
            await door.issue_token(asking("wrong", f"198.51.100.{number}"))
    assert (await door.issue_token(asking("secret"))).status == 200


async def test_wrong_secrets_are_logged_once_per_minute(
    door: Auth, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, auth.logger.name)
    for _ in range(4):
        await refused(door)
    assert [record.getMessage() for record in caplog.records] == [
        "Token request rejected, unknown key or wrong secret: rejected_since_last_log=1"
    ]
    clock.advance(61)
    await refused(door)
    assert "rejected_since_last_log=4" in caplog.records[-1].getMessage()
    assert len(caplog.records) == 2
    assert "wrong" not in caplog.text.replace("wrong secret", "")
