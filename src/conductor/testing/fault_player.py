"""One request answered as its behaviour says, well or badly."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from conductor.common.clock import Clock
from conductor.protocol.wire import VERDICT_HEADER, Verdict
from conductor.testing.fault_script import (
    Behaviour,
    CloseAfter,
    Delay,
    HalfOpen,
    Judge,
    Malformed,
    Pass,
    Reset,
    Status,
)
from conductor.testing.http11 import Connection, StubAnswer
from conductor.testing.report_rules import refusal
from conductor.testing.request import Request
from conductor.testing.router import Router, json_answer
from conductor.testing.stub_errors import StubError
from conductor.testing.stub_tokens import Tokens
from conductor.testing.wait_until import Watch


class Player:
    """Plays behaviours on a connection."""

    def __init__(self, tokens: Tokens, router: Router, watch: Watch, clock: Clock) -> None:
        self._tokens = tokens
        self._router = router
        self._watch = watch
        self._clock = clock

    async def play(self, behaviour: Behaviour, connection: Connection, request: Request, *, close: bool) -> None:
        """Answer the request, or do what the behaviour says instead; `close` when it is the last of its connection."""
        match behaviour:
            case Pass():
                connection.send(await self._answer(request), close=close)
            case CloseAfter():
                connection.send(await self._answer(request))
                connection.close()
            case Status():
                connection.send(_scripted(behaviour), close=close)
            case Judge(verdict):
                connection.send(await self._judge(request, verdict), close=close)
            case Malformed(data, raw=True):
                connection.send_raw(data, close=True)
            case Malformed(data):
                connection.send(StubAnswer(body=data), close=close)
            case Delay(seconds, then):
                await self._clock.sleep(seconds)
                await self.play(then, connection, request, close=close)
            case Reset(applied):
                await self._apply_unanswered(request, applied)
                connection.reset()
            case HalfOpen(applied):
                await self._apply_unanswered(request, applied)
                await asyncio.get_running_loop().create_future()  # until the client has enough

    async def _apply_unanswered(self, request: Request, applied: bool) -> None:
        if applied:
            await self._answer(request)
            self._watch.notify()

    async def _answer(self, request: Request) -> StubAnswer:
        try:
            self._tokens.check(request)
            return await self._router.answer(request)
        except StubError as error:
            return error.answer()
        except ValueError as error:  # what cannot be read is a 500 on the real server too
            return StubError(500, str(error)).answer()

    async def _judge(self, request: Request, verdict: Verdict) -> StubAnswer:
        if verdict is Verdict.COMMITTED:
            answer = await self._answer(request)
            headers = answer.headers | {VERDICT_HEADER: str(verdict)}
            return StubAnswer(answer.status, answer.body, answer.content_type, headers)
        refused = refusal(verdict)
        if request.route == "reports":
            return json_answer([{"taskId": report.get("taskId"), **refused.to_dict()} for report in request.json])
        return refused.answer()


def _scripted(behaviour: Status) -> StubAnswer:
    body, headers = behaviour.body, dict(behaviour.headers)
    if body is None and behaviour.status >= 400:
        body = StubError(behaviour.status, "As the test's script says").to_dict()
    content_type = headers.pop("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
    return StubAnswer(behaviour.status, _bytes(body), content_type, headers)


def _bytes(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body)
