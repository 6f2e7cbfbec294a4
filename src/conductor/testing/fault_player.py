"""Answers a request with the behaviour that the test chose: the correct answer, or a fault such as a reset."""

from __future__ import annotations

import asyncio

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
from conductor.testing.http11 import StubAnswer, StubConnection
from conductor.testing.request import Request
from conductor.testing.router import Router, StubError, json_answer
from conductor.testing.stub_tokens import StubTokens
from conductor.testing.wait_until import Watch

#: The answers to reports for which a fault script sets a negative verdict.
_SCRIPTED_REFUSALS = {
    Verdict.CANCELLED: StubError(409, "The lease has ended", verdict=Verdict.CANCELLED),
    Verdict.REJECTED: StubError(400, "The report is refused", verdict=Verdict.REJECTED),
}


class FaultPlayer:
    """Applies the behaviours of a fault script to connections."""

    def __init__(self, tokens: StubTokens, router: Router, watch: Watch, clock: Clock) -> None:
        self._tokens = tokens
        self._router = router
        self._watch = watch
        self._clock = clock

    async def play(self, behaviour: Behaviour, connection: StubConnection, request: Request, *, close: bool) -> None:
        """Answer the request with this behaviour. With `close`, close the connection after the answer."""
        match behaviour:
            case Pass():
                connection.send(await self._answer(request), close=close)
            case CloseAfter():
                connection.send(await self._answer(request))
                connection.close()
            case Status():
                connection.send(_scripted_answer(behaviour), close=close)
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
                # Never answer. The disconnect of the client ends the wait.
                await asyncio.get_running_loop().create_future()

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
        except ValueError as error:  # a Conductor server also answers 500 to a body that it cannot parse
            return StubError(500, str(error)).answer()

    async def _judge(self, request: Request, verdict: Verdict) -> StubAnswer:
        if verdict is Verdict.COMMITTED:
            answer = await self._answer(request)
            headers = answer.headers | {VERDICT_HEADER: str(verdict)}
            return StubAnswer(answer.status, answer.body, answer.content_type, headers)
        refusal = _SCRIPTED_REFUSALS[verdict]
        if request.route == "reports":
            return json_answer([{"taskId": report.get("taskId"), **refusal.to_dict()} for report in request.json])
        return refusal.answer()


def _scripted_answer(behaviour: Status) -> StubAnswer:
    body, headers = behaviour.body, dict(behaviour.headers)
    if body is None and behaviour.status >= 400:
        body = StubError(behaviour.status, "As the test's script says").to_dict()
    content_type = headers.pop("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
    return StubAnswer(behaviour.status, _encode_body(body), content_type, headers)


def _encode_body(body: object) -> bytes:
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body)
