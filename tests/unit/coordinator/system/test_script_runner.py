"""Scripts in their own process: their values, their isolation, and their limits."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from conductor.coordinator.language.script_engines import engine_files
from conductor.coordinator.system import script_runner
from conductor.coordinator.system.script_runner import QuickRunTimeout, ScriptError, ScriptRequest, ScriptRunner


@pytest.fixture
def runner() -> Iterator[ScriptRunner]:
    found = ScriptRunner()
    yield found
    found.close()


def value(runner: ScriptRunner, script: str, data: Any = None) -> Any:
    return runner.run(ScriptRequest("javascript", script, json.dumps(data or {}).encode()))


def query(runner: ScriptRunner, script: str, data: Any = None) -> Any:
    return runner.run(ScriptRequest("jq", script, json.dumps(data).encode()))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("1 + 1", 2),
        ("$.x * 2", 10),
        ("(function () { return {a: $.x, b: [1, , {c: null}]}; })()", {"a": 5, "b": [1, None, {"c": None}]}),
        ("undefined", None),
        ("[NaN, 1 / 0, undefined]", ["NaN", "Infinity", None]),
        ("4 / 2", 2),
        ("10n", 10),
        ("new Date(0)", {}),
        ("/a/g", {}),
        ("Symbol('a')", {}),
        ("({a: undefined, f() {}})", {"a": None, "f": {}}),
        ("new Map([[1, 2]])", {"1": 2}),
        ("new Set([1])", {}),
        ("new Uint8Array([1, 2])", [1, 2]),
        ("new String('x')", "x"),
        ("let a = 1; a + 2", 3),
        ("if ($.x > 3) { 'large' } else { 'small' }", "large"),
        ("$.n = 4; $", {"x": 5, "n": 4}),
    ],
)
def test_a_value_is_shown_as_conductor_shows_it(runner: ScriptRunner, script: str, expected: Any) -> None:
    assert value(runner, script, {"x": 5}) == expected


ORDER = {"items": [{"id": 1}, {"id": 2}], "tags": ["a", "b"], "who": {"name": "Ada", "age": 36}, "none": {}}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("$.tags.get(1)", "b"),
        ("[$.tags.size(), $.who.size(), $.items.get(0).size()]", [2, 2, 1]),
        ("[$.tags.isEmpty(), $.none.isEmpty(), [].isEmpty()]", [False, True, True]),
        ("[$.tags.contains('b'), $.items.contains({id: 2}), $.items.contains({id: 3})]", [True, True, False]),
        ("$.tags.containsAll(['b', 'a'])", True),
        ("[$.tags.add('c'), $.tags]", [True, ["a", "b", "c"]]),
        ("$.tags.add(0, 'c'); $.tags", ["c", "a", "b"]),
        ("[$.tags.addAll(['c', 'd']), $.tags]", [True, ["a", "b", "c", "d"]]),
        ("[$.tags.set(0, 'z'), $.tags]", ["a", ["z", "b"]]),
        ("[$.tags.remove(0), $.tags]", ["a", ["b"]]),
        ("[$.tags.remove('b'), $.tags.remove('x'), $.tags]", [True, False, ["a"]]),
        ("$.tags.clear(); $.who.clear(); [$.tags, $.who]", [[], {}]),
        ("[$.tags.indexOf('b'), $.tags.subList(1, 2), $.tags.equals(['a', 'b'])]", [1, ["b"], True]),
        ("var all = '', i = $.tags.iterator(); while (i.hasNext()) all += i.next(); all", "ab"),
        ("[$.get('who').get('name'), $.get('gone'), $.get('size')]", ["Ada", None, None]),
        ("[$.who.getOrDefault('name', 'x'), $.who.getOrDefault('gone', 'x')]", ["Ada", "x"]),
        ("[$.who.put('name', 'Bo'), $.who.put('x', 1), $.who]", ["Ada", None, {"name": "Bo", "age": 36, "x": 1}]),
        ("$.none.putIfAbsent('a', 1); $.none.putIfAbsent('a', 2); $.none", {"a": 1}),
        ("$.none.putAll($.who); $.none.equals($.who)", True),
        ("[$.who.containsKey('age'), $.who.containsKey('size'), $.who.containsValue(36)]", [True, False, True]),
        ("[$.who.remove('age'), $.who.remove('gone'), $.who]", [36, None, {"name": "Ada"}]),
        ("[$.who.keySet(), $.who.values(), $.who.keySet().contains('age')]", [["name", "age"], ["Ada", 36], True]),
        ("$.who.entrySet().map(e => e.getKey() + '=' + e.getValue())", ["name=Ada", "age=36"]),
        ("var all = []; $.who.forEach((key, value) => all.push(key, value)); all", ["name", "Ada", "age", 36]),
    ],
)
def test_data_has_the_methods_of_java_s06(runner: ScriptRunner, script: str, expected: Any) -> None:
    assert value(runner, script, ORDER) == expected


def test_methods_of_java_are_not_data_s06(runner: ScriptRunner) -> None:
    script = """
        var seen = []; for (var key in $) seen.push(key); for (var index in $.list) seen.push(index);
        [seen, Object.keys($), JSON.stringify($), $.size, $.get, $.list.size(), 'put' in $.own, $]
    """
    data = {"size": 3, "get": "x", "list": [5], "own": {"put": None, "__proto__": 4}}
    names = list(data)
    assert value(runner, script, data) == [
        [*names, "0"], names, json.dumps(data, separators=(",", ":")), 3, "x", 1, True, data
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("[...$.tags.keys()]", [0, 1]),
        ("[...$.tags.values()].concat([...$.tags.entries()])", ["a", "b", [0, "a"], [1, "b"]]),
        ("var all = []; $.tags.forEach((one, index) => all.push(index, one)); all", [0, "a", 1, "b"]),
        ("new Map([['a', 1]]).get('a') + new Set([1, 2]).size", 3),
        ("Object.defineProperty({}, 'a', {value: 1, enumerable: true}) /* get */", {"a": 1}),
        ("var p = new Proxy({b: 2}, {}); p.b + typeof ({}).get", "2undefined"),
        ("[$ instanceof Object, $.tags instanceof Array, $.constructor === Object, $.tags.size()]", [True] * 3 + [2]),
    ],
)
def test_javascript_keeps_its_meaning_beside_the_methods_of_java_s06(
    runner: ScriptRunner, script: str, expected: Any
) -> None:
    assert value(runner, script, ORDER) == expected


def test_an_index_out_of_bounds_is_an_error_s06(runner: ScriptRunner) -> None:
    with pytest.raises(ScriptError, match="RangeError: Index 2 out of bounds for length 2"):
        value(runner, "$.tags.get(2)", ORDER)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("throw new Error('bad')", "`Error: bad` at line 1"),
        ("throw 'bad'", "`bad`"),
        ("\n\nnope", "`ReferenceError: nope is not defined` at line 3"),
        ("1 +", "SyntaxError"),
        ("return 1", "SyntaxError"),
        ("var a = {}; a.a = a; a", "contains itself"),
    ],
)
def test_a_failure_says_what_and_where(runner: ScriptRunner, script: str, said: str) -> None:
    with pytest.raises(ScriptError, match=r"^") as found:
        value(runner, script)
    assert said in str(found.value)
    assert not found.value.overran


@pytest.mark.parametrize("characters", [512, 64 * 1024, 9 * 1024 * 1024])
class TestLongTexts:
    def test_a_long_value_comes_back_whole(self, runner: ScriptRunner, characters: int) -> None:
        assert value(runner, f"'x'.repeat({characters})") == "x" * characters
        assert value(runner, f"({{a: ['x'.repeat({characters}) + 'y']}})") == {"a": ["x" * characters + "y"]}
        assert value(runner, "$", {"a": "ü" * (characters // 2)}) == {"a": "ü" * (characters // 2)}
        assert query(runner, ".", "x" * characters) == ["x" * characters]
        assert len(runner.pids) == 1

    def test_a_long_error_comes_back_whole(self, runner: ScriptRunner, characters: int) -> None:
        with pytest.raises(ScriptError) as found:
            value(runner, f"throw 'x'.repeat({characters}) + 'y'")
        assert str(found.value) == f"`{'x' * characters}y`"
        with pytest.raises(ScriptError) as found:
            value(runner, f"throw new Error('x'.repeat({characters}))")
        assert str(found.value) == f"`Error: {'x' * characters}` at line 1"
        assert not found.value.overran
        assert len(runner.pids) == 1


def test_a_value_above_the_limit_is_refused_by_its_size_s01(runner: ScriptRunner) -> None:
    with pytest.raises(ScriptError, match="^the value of the script has more than 10485760 bytes$") as found:
        value(runner, "new Array(20).fill('x'.repeat(1000000))")
    assert not found.value.overran
    assert value(runner, "1 + 1") == 2
    assert len(runner.pids) == 1


def test_a_failure_of_the_script_process_is_reported_as_what_it_is_s01(
    runner: ScriptRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_files = {name: path for name, path in engine_files().items() if name == "jq"}
    monkeypatch.setattr(script_runner, "engine_files", lambda: found_files)
    with pytest.raises(ScriptError) as found:
        value(runner, "1")
    assert str(found.value) == "the script process could not evaluate the script: KeyError: '_quickjs'"
    assert not found.value.overran, "another attempt would fail as well"
    assert query(runner, ".", 1) == [1]
    assert len(runner.pids) == 1


def test_a_script_that_takes_its_value_away_fails_s01(runner: ScriptRunner) -> None:
    script = "Object.defineProperty(Object.prototype, 'toJSON', {value() {}}); ({a: 1})"
    with pytest.raises(ScriptError, match="cannot be written as JSON"):
        value(runner, script)


@pytest.mark.parametrize(
    "script",
    [
        "Object.prototype.zz = 1; Array.prototype.map = null; JSON.parse = null; globalThis.leak = 1; 5",
        "Object.defineProperty(Object.prototype, 'toJSON', {value() { return 'forged'; }}); ({a: 1})",
        "Object.setPrototypeOf($, new Proxy({}, {get() { return 1; }})); $.y",
    ],
)
def test_a_script_sees_nothing_of_the_one_before_it(runner: ScriptRunner, script: str) -> None:
    value(runner, script)
    seen = "[typeof ({}).zz, typeof [].map, typeof JSON.parse, typeof leak, JSON.stringify({a: 1}), typeof $.y]"
    assert value(runner, seen) == ["undefined", "function", "function", "undefined", '{"a":1}', "undefined"]
    assert len(runner.pids) == 1


@pytest.mark.parametrize(
    "name", ["std", "os", "require", "process", "fetch", "console", "print", "Java", "setTimeout", "XMLHttpRequest"]
)
def test_a_script_reaches_nothing_but_the_language(runner: ScriptRunner, name: str) -> None:
    assert value(runner, f"typeof {name}") == "undefined"


def test_nothing_can_be_imported(runner: ScriptRunner) -> None:
    with pytest.raises(ScriptError):
        value(runner, "import fs from 'fs'; 1")
    assert value(runner, "import('fs'); 1") == 1


@pytest.mark.parametrize("script", ["env", "$ENV", "[$ENV.PATH, env.HOME]"])
def test_jq_sees_no_environment(runner: ScriptRunner, script: str) -> None:
    assert query(runner, script) in ([{}], [[None, None]])


@pytest.mark.parametrize("script", ['import "x" as $x {search: "/etc"}; $x', 'include "x"; .', "input", "halt_error"])
def test_jq_reads_no_files(runner: ScriptRunner, script: str) -> None:
    try:
        assert query(runner, script, None) == []
    except ScriptError as error:
        assert "module not found" in str(error) or str(error) == "break"


def test_the_process_has_no_file_but_its_pipes(runner: ScriptRunner) -> None:
    value(runner, "1")
    (pid,) = runner.pids
    process = psutil.Process(pid)
    assert process.open_files() == []
    assert process.net_connections() == []
    assert process.num_fds() == 3


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("[.l[] | . + 1]", [[2, 3]]),
        (".l[]", [1, 2]),
        ("empty", []),
        (".nope", [None]),
        ('"a\\u2028b\\nc"', ["a\u2028b\nc"]),
    ],
)
def test_jq_gives_all_values(runner: ScriptRunner, script: str, expected: Any) -> None:
    assert query(runner, script, {"l": [1, 2]}) == expected


@pytest.mark.parametrize(
    ("script", "said"), [('error("x")', "x"), (".a |", "compile error"), (".l + 1", "cannot be added")]
)
def test_a_failure_of_jq_says_what(runner: ScriptRunner, script: str, said: str) -> None:
    with pytest.raises(ScriptError, match=said):
        query(runner, script, {"l": [1]})


HOSTILE = {
    "an endless loop": "while (true) {}",
    "a loop in a proxy": "new Proxy({}, {ownKeys() { while (true); }})",
    "a native that looks at no clock": "new Array(1e9).join()",
    "another": "Array.prototype.slice.call({length: 1e9})",
    "a bomb of memory": "var a = []; while (true) a.push(new Array(1000).fill('x'))",
    "a huge text": "'x'.repeat(2 ** 29)",
    "deep recursion": "(function f() { return f(); })()",
    "a deep value": "var o = {}; for (let i = 0; i < 50000; i++) { o = {o}; } o",
    "a text that is none": "'\\ud800'",
    "a pattern that backtracks": "/^(a+)+$/.test('a'.repeat(60) + 'b')",
}
HOSTILE_QUERIES = {
    "an endless loop": "last(range(1e12))",
    "a bomb of memory": "[range(1e9)]",
    "deep recursion": "def f: f | f; f",
}


@pytest.fixture
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_runner, "SCRIPT_S", 1)


@pytest.mark.usefixtures("_little_patience")
@pytest.mark.parametrize("script", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_script_ends_and_the_next_one_runs(runner: ScriptRunner, script: str) -> None:
    with pytest.raises(ScriptError):
        value(runner, script)
    assert value(runner, "1 + 1") == 2


@pytest.mark.usefixtures("_little_patience")
@pytest.mark.parametrize("script", HOSTILE_QUERIES.values(), ids=HOSTILE_QUERIES)
def test_a_hostile_jq_query_ends_at_its_limit(runner: ScriptRunner, script: str) -> None:
    with pytest.raises(ScriptError):
        query(runner, script)
    assert query(runner, ".", 5) == [5]


@pytest.mark.parametrize("script", ["while (true) {}", "new Array(1e9).join()"])
def test_the_first_run_of_a_long_script_is_short_a12(runner: ScriptRunner, script: str) -> None:
    with pytest.raises(QuickRunTimeout):
        runner.run_quickly(ScriptRequest("javascript", script, b"{}"))
    assert runner.run_quickly(ScriptRequest("javascript", "1 + 1", b"{}")) == 2
    with pytest.raises(ScriptError, match="bad"):
        runner.run_quickly(ScriptRequest("javascript", "throw 'bad'", b"{}"))


def test_a_process_that_is_killed_in_the_middle_of_a_script_is_replaced(runner: ScriptRunner) -> None:
    assert value(runner, "1") == 1
    (pid,) = runner.pids
    outcome: list[Exception] = []

    def run() -> None:
        try:
            value(runner, "while (true) {}")
        except ScriptError as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    process, before = psutil.Process(pid), 0.0
    while (used := process.cpu_times().user) < before + 0.05:  # it is at work
        before = before or used
    os.kill(pid, signal.SIGKILL)
    thread.join(60)
    assert str(outcome[0]) == "the script process ended during the script: SIGKILL"
    assert value(runner, "2") == 2
    assert runner.pids != [pid]


def test_a_process_that_dies_while_nobody_uses_it_is_replaced(runner: ScriptRunner) -> None:
    value(runner, "1")
    (pid,) = runner.pids
    os.kill(pid, signal.SIGKILL)
    psutil.Process(pid).wait(60)
    assert value(runner, "2") == 2


def test_a_script_waits_until_a_process_can_be_started(runner: ScriptRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    start, failures = subprocess.Popen, iter(range(2))

    def fail_at_first(*args: Any, **options: Any) -> Any:
        for _ in failures:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return start(*args, **options)

    monkeypatch.setattr(script_runner, "START_AGAIN_S", 0.01)
    monkeypatch.setattr(subprocess, "Popen", fail_at_first)
    assert value(runner, "1 + 1") == 2


def test_a_script_fails_if_no_process_can_be_started(runner: ScriptRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: Any, **_options: Any) -> Any:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(script_runner, "START_WITHIN_S", -1.0)
    monkeypatch.setattr(subprocess, "Popen", fail)
    with pytest.raises(ScriptError, match="no process for the script could be started .*Cannot allocate") as failed:
        value(runner, "1 + 1")
    assert failed.value.overran, "so the task is retried"


def test_all_processes_end_with_the_runner() -> None:
    runner = ScriptRunner()
    value(runner, "1")
    (pid,) = runner.pids
    runner.close()
    assert not psutil.pid_exists(pid)
    with pytest.raises(ScriptError, match="stopping"):
        value(runner, "1")
