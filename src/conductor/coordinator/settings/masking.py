"""Masking of secrets in the results of the coordinator's own tasks.

An HTTP or script task receives the values of its secrets, and a server or a script can return them. `system/lane.py`
passes every result and every traceback of such a task through a `SecretMask` before the result is stored, answered or
logged. No other place masks. A value is replaced by the placeholder that the definition has, so that a reason shows the
URI as it was written; the placeholder in an output is plain text and is never filled in again.

A value is found in texts, in the names of objects, as a whole number, and in the forms that requests, engines and
servers commonly make of it: JSON, percent-encoding, HTML, base64, `repr`, Latin-1. The case of ASCII letters
makes no difference.

Limits, which `docs/reference/http.md` repeats:

- A value of fewer than `MIN_CHARS` characters is masked only where it stands alone, not inside a word or a number.
- A script that computes something else from a secret (a hash, a part, its characters one by one) returns it unmasked.
- The text of a failure also loses every run of `MIN_FRAGMENT_CHARS` characters that occurs in a value, because engines
  quote parts of the values they fail on. Such a text is cut to `MAX_FAILURE_CHARS`.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import html
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from conductor.coordinator.language.expressions import secret_placeholder

#: Shorter values are masked only where they stand alone: masking `a` everywhere would destroy every output.
MIN_CHARS = 4
#: Runs of a value that are masked in failures.
MIN_FRAGMENT_CHARS = 6
FRAGMENT_MASK = "***"
#: Texts of failures are cut to this length before they are searched for fragments.
MAX_FAILURE_CHARS = 10_000

#: Characters that URIs keep as they are: in no part, in a path, in a query.
_URI_SAFE = ("", "/", "/%:@!$&'()*+,;=~-._", "/?%:@!$&()*+,;=~-._[]")
_encode = msgspec.json.encode


class SecretMask:
    """Replaces the values of the secrets that one task received. False if the task received none."""

    def __init__(self, received: Mapping[str, str]) -> None:
        self._values = {value: secret_placeholder(name) for name, value in received.items() if value}
        #: Folded form → placeholder.
        self._forms = {_fold(form): mask for value, mask in self._values.items() for form in _forms(value)}

    def __bool__(self) -> bool:
        return bool(self._values)

    def mask_output(self, output: dict[str, Any], *, failed: bool) -> dict[str, Any]:
        """Mask an output in place, and return it. `failed`: mask fragments of values too."""
        encoded = _encode(output).lower()
        # JSON escapes each character for itself: a text contains a form exactly if its JSON contains the form's JSON.
        found = [form for form in self._forms if _encode(form)[1:-1].lower() in encoded]
        if not found and not failed:
            return output
        left: list[Any] = [output]
        while left:  # a loop, not a recursion: outputs may be nested as deeply as JSON is read
            at = left.pop()
            if isinstance(at, dict):
                items = [(self._text(key, found, failed), self._leaf(item, found, failed)) for key, item in at.items()]
                at.clear()
                at.update(items)
                left += at.values()
            elif isinstance(at, list):
                at[:] = [self._leaf(item, found, failed) for item in at]
                left += at
        return output

    def mask_failure(self, text: str) -> str:
        """Return the text of a failure without the values and without fragments of them."""
        return self._text(text, list(self._forms), True) if self else text

    def _leaf(self, value: Any, forms: list[str], failed: bool) -> Any:
        """Mask a text or a number; return anything else as it is."""
        if isinstance(value, str):
            return self._text(value, forms, failed)
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = _encode(value).decode()
            return self._values.get(written, value) if len(written) >= MIN_CHARS else value
        return value

    def _text(self, text: str, forms: list[str], failed: bool) -> str:
        if failed:
            text = text[:MAX_FAILURE_CHARS]
        folded = _fold(text)
        present = [form for form in forms if form in folded]
        if not present and not failed:
            return text
        parts, last = [], 0
        # From left to right, and the longest first: values may contain each other, or overlap.
        places = sorted(self._places(text, folded, present), key=lambda place: (place[0], -place[1]))
        for start, end, mask in places:
            if start >= last:
                parts += [self._without_fragments(text[last:start], failed), mask]
            last = max(last, end)
        return "".join([*parts, self._without_fragments(text[last:], failed)])

    def _places(self, text: str, folded: str, forms: list[str]) -> Iterator[tuple[int, int, str]]:
        """Return where forms occur, as (start, end, placeholder). Searching for literals takes linear time."""
        for form in forms:
            size, start = len(form), folded.find(form)
            while start >= 0:
                end = start + size
                if size >= MIN_CHARS or not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
                    yield start, end, self._forms[form]
                start = folded.find(form, end)

    def _without_fragments(self, text: str, failed: bool) -> str:
        """Return the text of a failure without runs of `MIN_FRAGMENT_CHARS` that occur in a value."""
        if not failed:
            return text
        parts, last, at, size = [], 0, 0, MIN_FRAGMENT_CHARS
        while at + size <= len(text):
            if text[at : at + size] not in self._fragments:
                at += 1
                continue
            end = at + size
            while end < len(text) and text[end - size + 1 : end + 1] in self._fragments:
                end += 1
            parts += [text[last:at], FRAGMENT_MASK]
            last = at = end
        return "".join([*parts, text[last:]])

    @functools.cached_property
    def _fragments(self) -> set[str]:
        """Every run of `MIN_FRAGMENT_CHARS` characters of a value, as it is and as JSON writes it."""
        texts = {text for value in self._values for text in (value, *_json_forms(value))}
        size = MIN_FRAGMENT_CHARS
        return {text[at : at + size] for text in texts for at in range(len(text) - size + 1)}


def _fold(text: str) -> str:
    """Return a text with its ASCII letters in lower case; the others depend on what stands around them."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _forms(value: str) -> set[str]:
    """Return a value and the forms in which it may come back."""
    if len(value) < MIN_CHARS:
        return {value}
    # Headers travel as Latin-1, bodies as UTF-8; each may be read as the other.
    texts = {value, value.encode().decode("latin-1")}
    with contextlib.suppress(UnicodeEncodeError):
        misread = value.encode("latin-1").decode(errors="replace")
        texts |= {misread} if len(misread.replace("\ufffd", "")) >= MIN_CHARS else set()
    forms = set(texts)
    for text in texts:
        forms |= {*_json_forms(text), repr(text)[1:-1], html.escape(text), quote_plus(text)}
        forms |= {quote(text, safe=safe) for safe in _URI_SAFE}
    forms |= {again for form in set(forms) for again in _json_forms(form)}
    forms |= {form for form in _base64_forms(value.encode()) if len(form) > MIN_FRAGMENT_CHARS}
    return forms


def _json_forms(text: str) -> tuple[str, ...]:
    written, ascii_only = json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]
    return written, ascii_only, written.replace("/", "\\/"), ascii_only.replace("/", "\\/")


def _base64_forms(value: bytes) -> Iterator[str]:
    """Return the characters of base64 that depend on the value alone, for each place where it can begin."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + value).decode()
        found = encoded[-(-before * 8 // 6) : (before + len(value)) * 8 // 6]
        yield found
        yield found.translate({ord("+"): "-", ord("/"): "_"})
