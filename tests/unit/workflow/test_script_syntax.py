"""The syntax check of scripts while a workflow is built."""

from __future__ import annotations

import sys

import pytest

from conductor.client.workflow.script_syntax import find_syntax_error


@pytest.mark.parametrize("script", ["$.x >", "$.a ? 1", "(function () { return 1; }()", "return 1"])
def test_a_script_that_cannot_be_parsed_has_an_error_u4_72(script: str) -> None:
    assert str(find_syntax_error(script)).startswith("SyntaxError: ")


@pytest.mark.parametrize(
    "script",
    [
        "$.x > 3",
        "if ($.loop['iteration'] < 3) { true; } else { false; }",
        "(function () { return [1].map(x => x); })()",
        "while (true) {}",  # it does not run
        "unknown(1)",
        "$.x > 3 // three",
        "${workflow.input.script} >",
    ],
)
def test_other_scripts_have_none(script: str) -> None:
    assert find_syntax_error(script) is None


def test_without_an_engine_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "_quickjs", None)
    assert find_syntax_error("$.x >") is None
