"""Whole answers, as bytes on the wire, that no sane server gives, and tasks that no sane server hands out."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

#: The size limit of an answer in the tests.
MAX_ANSWER_BYTES = 1024 * 1024


def raw(body: bytes = b"[]", status: str = "200 OK", *headers: bytes, length: int | None = None) -> bytes:
    """An answer with the right length, unless another one is given."""
    said = len(body) if length is None else length
    lines = [f"HTTP/1.1 {status}".encode(), b"Content-Type: application/json", b"Content-Length: %d" % said, *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body


def packed(size: int) -> bytes:
    """Return `size` zeros, compressed to a thousandth."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    block = bytes(1024 * 1024)
    return b"".join([*(packer.compress(block) for _ in range(size // len(block))), packer.flush()])


_GZIP = b"Content-Encoding: gzip"
_DEEP = 100_000

ANSWERS: dict[str, bytes] = {
    # bodies
    "nothing": raw(b""),
    "null": raw(b"null"),
    "an object": raw(b"{}"),
    "a list of lists": raw(b"[[]]"),
    "a list of nulls": raw(b"[null,null]"),
    "a list of numbers": raw(b"[1,2]"),
    "a text": raw(b'"COMMITTED"'),
    "no JSON": raw(b"hello"),
    "half of a JSON text": raw(b'[{"taskId":"a'),
    "two JSON texts": raw(b"[][]"),
    "not UTF-8": raw(b'[{"taskId":"\xff\xfe"}]'),
    "UTF-16": raw("[]".encode("utf-16")),
    "a byte order mark": raw(b"\xef\xbb\xbf[]"),
    "zeros": raw(bytes(100)),
    "deep lists": raw(b"[" * _DEEP + b"]" * _DEEP),
    "deep objects": raw(b'{"a":' * _DEEP + b"1" + b"}" * _DEEP),
    "deep where nobody looks": raw(b'[{"taskId":"t","x":' + b"[" * _DEEP + b"]" * _DEEP + b"}]"),
    "NaN": raw(b"[NaN]"),
    "infinity": raw(b'[{"pollCount":1e999}]'),
    "a number of 5000 digits": raw(b'[{"pollCount":' + b"9" * 5000 + b"}]"),
    "half of a surrogate pair": raw(b'[{"taskId":"\\ud800","workflowInstanceId":"w"}]'),
    "the same key again and again": raw(b'[{"taskId":"a","taskId":"b","taskId":3}]'),
    "control characters": raw(b'[{"taskId":"\\u001b[2J\\r\\nERROR fake","workflowInstanceId":"w"}]'),
    "many empty tasks": raw(b"[" + b"{}," * 1000 + b"{}]"),
    # lengths and encodings
    "shorter than it says": raw(b"[]", length=500),
    "longer than it says": raw(b"[] and then more", length=2),
    "a length that is negative": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n[]",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n[] ",
    "no length": b"HTTP/1.1 200 OK\r\n\r\n[",
    "chunks of no size": chunked(b"zz\r\n[]\r\n0\r\n\r\n"),
    "chunks that end early": chunked(b"ff\r\n[]"),
    "a chunk of 2**70 bytes": chunked(b"400000000000000000\r\n[]"),
    "gzip that is none": raw(b"[]", "200 OK", _GZIP),
    "half of a gzip": raw(gzip.compress(b"[]" * 1000)[:20], "200 OK", _GZIP),
    "gzip in gzip": raw(gzip.compress(gzip.compress(b"[]")), "200 OK", _GZIP),
    "gzip that becomes 100 MB": raw(packed(100 * 1024 * 1024), "200 OK", _GZIP),
    "an encoding of nobody": raw(b"[]", "200 OK", b"Content-Encoding: rot13"),
    "too large": raw(b" " * (2 * MAX_ANSWER_BYTES)),
    "an error that is too large": raw(b" " * (2 * MAX_ANSWER_BYTES), "500 X"),
    # headers
    "a header that is not ASCII": raw(b"[]", "200 OK", b"Server: caf\xe9"),
    "a verdict that is not ASCII": raw(b"[]", "200 OK", b"Conductor-Verdict: COMMITT\xc9D"),
    "a verdict that is none": raw(b"[]", "200 OK", b"Conductor-Verdict: PERHAPS"),
    "a verdict in odd letters": raw(b"", "200 OK", b"CONDUCTOR-VERDICT:  committed "),
    "two verdicts": raw(b"", "200 OK", b"Conductor-Verdict: COMMITTED", b"Conductor-Verdict: CANCELLED"),
    "a body that may have no bytes": raw(b"[]", "200 OK", b"Conductor-Max-Body: 1"),
    "a body of less than nothing": raw(b"[]", "200 OK", b"Conductor-Max-Body: -5"),
    "a body of 5000 digits": raw(b"[]", "200 OK", b"Conductor-Max-Body: " + b"9" * 5000),
    "features of another world": raw(b"[]", "200 OK", b"Conductor-Features: ,,\xff, teleport"),
    "a lease until the end of time": raw(b"", "200 OK", b"Conductor-Lease-Expires-At: " + b"9" * 400),
    "a content type of nobody": b"HTTP/1.1 200 OK\r\nContent-Type: \xff/;;;=\r\nContent-Length: 2\r\n\r\n[]",
    "a header of 200 kB": raw(b"[]", "200 OK", b"X-Long: " + b"x" * 200_000),
    "1000 headers": raw(b"[]", "200 OK", *[b"X-%d: y" % n for n in range(1000)]),
    "a header without a colon": raw(b"[]", "200 OK", b"this is no header"),
    # statuses
    "a status of 999": raw(b"[]", "999 Beyond"),
    "a status of 000": raw(b"[]", "000 Nothing"),
    "a status that is no number": raw(b"[]", "abc Nothing"),
    "no HTTP": b"220 mail.example.com ESMTP\r\n",
    "HTTP of the future": b"HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "nothing but 100 Continue": b"HTTP/1.1 100 Continue\r\n\r\n",
    "early hints, then nothing": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "204 with a body": b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
    "a redirection to itself": raw(b"", "302 Found", b"Location: /api/tasks"),
    "a redirection to nowhere": raw(b"", "307 Elsewhere", b"Location: http://127.0.0.1:1/\xff"),
    "nothing has changed": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "a log-in page": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>",
    "a page of a proxy": raw(b"<html><title>\x1b[31mBad\r\nGateway</title></html>", "502 Bad Gateway"),
    "an error that is not UTF-8": raw(b'{"message":"\xff\xfe"}', "500 X"),
    "an error that is deep": raw(b"[" * _DEEP, "503 X"),
    "an error of control characters": raw(b'{"message":"\\u001b[2J\\nCRITICAL fake line"}', "500 X"),
    "an error without a word": raw(b"", "500 X"),
    "an error whose message is a list": raw(b'{"message":[1],"verdict":{"a":1},"status":"x"}', "400 X"),
    "wait a superscript": raw(b"", "429 X", b"Retry-After: \xb2"),
    "wait for minus one": raw(b"", "503 X", b"Retry-After: -1"),
    "wait for ever": raw(b"", "429 X", b"Retry-After: " + b"9" * 400),
    "wait until yesterday": raw(b"", "503 X", b"Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"),
    "refused by a page": raw(b"<html>", "403 X"),
    "too large, says a proxy": raw(b"<html>", "413 Request Entity Too Large"),
}

#: Answers that are for an array of two reports.
BATCH_ANSWERS: dict[str, bytes] = {
    "one verdict for two reports": raw(b'[{"verdict":"COMMITTED"}]'),
    "three verdicts for two reports": raw(b'[{"verdict":"COMMITTED"},{"verdict":"COMMITTED"},{"verdict":"COMMITTED"}]'),
    "verdicts of nobody": raw(b'[{"verdict":"PERHAPS"},{"verdict":"perhaps"}]'),
    "verdicts that are numbers": raw(b'[{"verdict":1},{"verdict":2}]'),
    "no verdicts": raw(b"[{},{}]"),
    "one that can be read": raw(b'[{"verdict":"COMMITTED","status":200},7]'),
    "messages that are lists": raw(b'[{"verdict":"REJECTED","message":[]},{"verdict":"REJECTED","message":{}}]'),
    "statuses of nobody": raw(b'[{"verdict":"REJECTED","status":1e99},{"verdict":"REJECTED","status":-4}]'),
    "one with half of a surrogate pair": raw(b'[{"verdict":"\\ud800"},{"verdict":"REJECTED"}]'),
}

#: Values that fit almost no field.
WRONG: dict[str, Any] = {"number": 5, "text": "x", "list": [1], "object": {"a": 1}, "true": True, "fraction": 1.5}


def task_json(**fields: Any) -> dict[str, Any]:
    """A task as a Conductor server hands it out."""
    good = {"taskId": "t", "workflowInstanceId": "w", "taskType": "job", "taskDefName": "job", "status": "IN_PROGRESS"}
    return good | {"pollCount": 1, "responseTimeoutSeconds": 3600, "inputData": {}} | fields


def answer_of(*tasks: Any) -> bytes:
    return raw(json.dumps(tasks).encode())
