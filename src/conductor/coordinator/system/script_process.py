"""The program of a script process. `script_runner` starts it, and kills it when a script takes too long.

The process reads one request per line from stdin and writes one answer per line to stdout, both as JSON. Each script
gets a new engine, so that it cannot see the state of an earlier script. Before the first script the process limits its
own memory and processor time, and gives up all files except its pipes. This module imports nothing from this package;
it loads the engines from the files that its arguments name.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import re
import resource
import sys
import time
from pathlib import Path
from typing import Any

#: Methods of Java's lists and maps. In Conductor the data of a script are Java objects and have these methods. A script
#: that names none of them gets plain data, because preparing the data takes longer than parsing it.
_JAVA_METHOD = re.compile(
    r"\b(?:add|addAll|clear|contains|containsAll|containsKey|containsValue|entrySet|equals|forEach|get|getOrDefault"
    r"|isEmpty|iterator|keySet|put|putAll|putIfAbsent|remove|set|size|subList|values)\b"
)
_HERE = Path(__file__).parent
#: JavaScript code that runs around scripts. It is read on import, because a script process cannot open files later.
_JAVA_METHODS_CODE = (_HERE / "java_methods.js").read_text(encoding="utf-8").strip()
_EVALUATE_CODE = (_HERE / "evaluate_script.js").read_text(encoding="utf-8").strip()
_OUT_OF_MEMORY = "the script exceeded its memory limit"


def main(arguments: list[str]) -> None:
    """Answer requests until stdin is closed."""
    memory_bytes, script_memory_bytes, answer_bytes = (int(number) for number in arguments[:3])
    engines = {name: _load(name, path) for name, path in (entry.split("=", 1) for entry in arguments[3:])}
    os.environ.clear()  # jq scripts could read the variables with `env`
    _confine(memory_bytes)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    answers.write(b"ready\n")  # the time limit of the first script begins after this line
    answers.flush()
    while line := requests.readline():
        answer = _answer(engines, line, script_memory_bytes)
        if len(answer) > answer_bytes:
            answer = _error(f"the value of the script has more than {answer_bytes} bytes")
        answers.write(answer + b"\n")
        answers.flush()


def _load(name: str, path: str) -> Any:
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is not an extension module")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _confine(memory_bytes: int) -> None:
    """Limit memory, and forbid files, processes and core dumps."""
    limits = [
        (resource.RLIMIT_NOFILE, 3),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_DATA, memory_bytes),
    ]
    for limit, value in limits:
        try:
            resource.setrlimit(limit, (value, value))
        except (OSError, ValueError):  # not supported on macOS; the engines have limits of their own
            continue


def _answer(engines: dict[str, Any], line: bytes, memory_bytes: int) -> bytes:
    try:
        request = json.loads(line)
        cpu_s = request["cpu_s"]
        # RLIMIT_CPU counts the whole process, so the time that earlier scripts used is added.
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + cpu_s) + 2, resource.RLIM_INFINITY))
        if request["language"] == "jq":
            return _jq(engines["jq"], request["script"], request["data"])
        return _javascript(engines["_quickjs"], request["script"], request["data"], memory_bytes, cpu_s)
    except MemoryError:
        return _error(_OUT_OF_MEMORY)
    except Exception as error:  # a bug in this program or in an engine; a retry would fail too
        return _error(f"the script process could not evaluate the script: {type(error).__name__}: {error}")


def _error(reason: str) -> bytes:
    return json.dumps({"error": reason}).encode()


def _javascript(quickjs: Any, script: str, data: str, memory_bytes: int, cpu_s: float) -> bytes:
    context = quickjs.Context()
    prepare = _JAVA_METHODS_CODE if _JAVA_METHOD.search(script) else "null"
    evaluate = context.eval(f"{_EVALUATE_CODE}({prepare})")
    context.set_memory_limit(memory_bytes)
    context.set_time_limit(cpu_s)
    try:
        answer: str = evaluate(script, data)
    except quickjs.StackOverflow:
        return _error("`RangeError: Maximum call stack size exceeded`")
    except quickjs.JSException as error:
        message = str(error).partition("\n")[0].strip()
        if "interrupted" in message:
            return json.dumps({"overrun": True}).encode()
        return _error(_OUT_OF_MEMORY if "out of memory" in message or message in ("", "null") else f"`{message}`")
    return answer.encode()


def _jq(jq: Any, script: str, data: str) -> bytes:
    try:
        values = jq.compile(script).input_text(data).text()
    except ValueError as error:
        return _error(str(error).strip())
    # jq writes one value per line; a line feed inside a string is written as \\n.
    return f'{{"value":[{",".join(values.split(chr(10)) if values else ())}]}}'.encode()


if __name__ == "__main__":
    main(sys.argv[1:])
