"""Mask secrets in the results of system tasks.

An HTTP or script task receives the values of its secrets, and a server or a script can return them.
`system/system_task_queue.py` passes every result and every traceback of such a task through a `SecretMask` before the
result is stored, answered or logged. No other module masks. The mask replaces a value by its placeholder in the
definition, so a reason shows the URI as the definition has it. A placeholder in an output is plain text, which is
never replaced by the value again.

The mask finds a value in texts, in the names of objects, as a whole number, and in the forms that requests, engines and
servers commonly produce: JSON, percent-encoding, HTML, base64, `repr`, Latin-1. It ignores the case of ASCII letters.

Limits, which `docs/reference/http.md` repeats:

- A value of fewer than `MIN_CHARS` characters is masked only as a separate word, not inside a word or a number.
- The result of a computation with a secret (a hash, a part, its characters one by one) is not masked.
- In the text of a failure, every run of `MIN_FRAGMENT_CHARS` characters of a value is masked too, because engines quote
  parts of the values on which they fail. Such a text is cut to `MAX_FAILURE_CHARS`.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import html
import json
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus

import msgspec

from conductor.coordinator.language.expressions import secret_placeholder
from conductor.protocol.json_types import Json, JsonObject

#: Shorter values are masked only as separate words: masking `a` everywhere would destroy every output.
MIN_CHARS = 4
#: The shortest part of a value that is masked in the text of a failure.
MIN_FRAGMENT_CHARS = 6
FRAGMENT_MASK = "***"
#: The text of a failure is cut to this length before it is searched for fragments of secrets.
MAX_FAILURE_CHARS = 10_000

#: Characters that percent-encoding leaves as they are: in a value, in a path segment, in a path, in a query.
_URI_SAFE = ("", "/", "/%:@!$&'()*+,;=~-._", "/?%:@!$&()*+,;=~-._[]")
_encode = msgspec.json.encode


class SecretMask:
    """Replaces the values of the secrets that one task received by placeholders. A mask without secrets is falsy."""

    def __init__(self, received: Mapping[str, str]) -> None:
        self._values = {value: secret_placeholder(name) for name, value in received.items() if value}
        #: Form of a value in lower case → placeholder.
        self._forms = {_lower_ascii(form): mask for value, mask in self._values.items() for form in _list_forms(value)}

    def __bool__(self) -> bool:
        return bool(self._values)

    def mask_output(self, output: JsonObject, *, failed: bool) -> JsonObject:
        """Mask an output in place and return it. If the task has `failed`, mask fragments of values too."""
        encoded = _encode(output).lower()
        # Search the whole output at once: JSON escapes each character separately, so a form occurs in a text of the
        # output only if the encoded form occurs in the encoded output.
        found = [form for form in self._forms if _encode(form)[1:-1].lower() in encoded]
        if not found and not failed:
            return output
        pending: list[Json] = [output]
        while pending:  # a loop, because an output can be nested too deeply for a recursion
            value = pending.pop()
            if isinstance(value, dict):
                masked = [
                    (self._mask_text(key, found, failed), self._mask_scalar(item, found, failed))
                    for key, item in value.items()
                ]
                value.clear()
                value.update(masked)
                pending += value.values()
            elif isinstance(value, list):
                value[:] = [self._mask_scalar(item, found, failed) for item in value]
                pending += value
        return output

    def mask_failure(self, text: str) -> str:
        """Return the text of a failure with the values of secrets, and fragments of these values, masked."""
        return self._mask_text(text, list(self._forms), True) if self else text

    def _mask_scalar(self, value: Json, forms: list[str], failed: bool) -> Json:
        """Mask a text or a number; return any other value as it is."""
        if isinstance(value, str):
            return self._mask_text(value, forms, failed)
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = _encode(value).decode()
            return self._values.get(written, value) if len(written) >= MIN_CHARS else value
        return value

    def _mask_text(self, text: str, forms: list[str], failed: bool) -> str:
        if failed:
            text = text[:MAX_FAILURE_CHARS]
        lower = _lower_ascii(text)
        present = [form for form in forms if form in lower]
        if not present and not failed:
            return text
        parts, last = [], 0
        # Matches are masked from left to right, the longest first, because values can contain each other or overlap.
        places = sorted(self._find_places(text, lower, present), key=lambda place: (place[0], -place[1]))
        for start, end, mask in places:
            if start >= last:
                parts += [self._mask_fragments(text[last:start], failed), mask]
            last = max(last, end)
        return "".join([*parts, self._mask_fragments(text[last:], failed)])

    def _find_places(self, text: str, lower: str, forms: list[str]) -> Iterator[tuple[int, int, str]]:
        """Yield where forms of secrets occur in a text, as (start, end, placeholder). Takes linear time."""
        for form in forms:
            size, start = len(form), lower.find(form)
            while start >= 0:
                end = start + size
                if size >= MIN_CHARS or not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
                    yield start, end, self._forms[form]
                start = lower.find(form, end)

    def _mask_fragments(self, text: str, failed: bool) -> str:
        """Return a text; if a task has `failed`, with runs of `MIN_FRAGMENT_CHARS` characters of a secret masked."""
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
        """Every run of `MIN_FRAGMENT_CHARS` characters in the value of a secret or in its JSON form."""
        texts = {text for value in self._values for text in (value, *_list_json_forms(value))}
        size = MIN_FRAGMENT_CHARS
        return {text[at : at + size] for text in texts for at in range(len(text) - size + 1)}


def _lower_ascii(text: str) -> str:
    """Return a text of the same length with its ASCII letters in lower case."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _list_forms(value: str) -> set[str]:
    """Return a value and the encoded forms of it that the result of a task may contain."""
    if len(value) < MIN_CHARS:
        return {value}
    # Headers are Latin-1 and bodies are UTF-8; a server may decode one as the other.
    texts = {value, value.encode().decode("latin-1")}
    with contextlib.suppress(UnicodeEncodeError):
        misread = value.encode("latin-1").decode(errors="replace")
        texts |= {misread} if len(misread.replace("\ufffd", "")) >= MIN_CHARS else set()
    forms = set(texts)
    for text in texts:
        forms |= {*_list_json_forms(text), repr(text)[1:-1], html.escape(text), quote_plus(text)}
        forms |= {quote(text, safe=safe) for safe in _URI_SAFE}
    forms |= {again for form in set(forms) for again in _list_json_forms(form)}
    forms |= {form for form in _list_base64_forms(value.encode()) if len(form) > MIN_FRAGMENT_CHARS}
    return forms


def _list_json_forms(text: str) -> tuple[str, ...]:
    written, ascii_only = json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]
    return written, ascii_only, written.replace("/", "\\/"), ascii_only.replace("/", "\\/")


def _list_base64_forms(value: bytes) -> Iterator[str]:
    """Return the base64 characters that depend only on the value, for each of the three possible alignments."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + value).decode()
        characters = encoded[-(-before * 8 // 6) : (before + len(value)) * 8 // 6]
        yield characters
        yield characters.translate({ord("+"): "-", ord("/"): "_"})
