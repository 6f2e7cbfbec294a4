"""The process in which scripts run: started by `script_runner`, and ended by it when a script takes too long.

It reads one request a line from its input and writes one answer a line to its output; both are JSON. Each script gets
an engine of its own, so that none sees what another has left behind. What the process may use is limited before the
first script: memory, processor time, and no file but its two pipes. It imports nothing of ours and starts without the
packages of its environment; the two engines are loaded from the files that its arguments name.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import resource
import sys
import time
from typing import Any

#: Runs a script and gives its value as JSON, as Conductor shows the values of a script. What it needs of the language
#: is taken before any script could change it.
_RUNNER = """
(function () {
  "use strict";
  const evaluate = eval, parse = JSON.parse, stringify = JSON.stringify, isList = Array.isArray, text = String;
  const keys = Object.keys, toNumber = Number, finite = Number.isFinite, ofText = String.prototype.match;
  const isBuffer = ArrayBuffer.isView, apply = Reflect.apply, each = Map.prototype.forEach, AnyMap = Map;
  const define = Object.defineProperty, AnyError = Error;
  const AnyString = String, AnyNumber = Number, AnyBoolean = Boolean, lines = /:(\\d+):\\d+\\)?$/m;
  function shown(value, inside) {
    switch (typeof value) {
      case "string": case "boolean": return value;
      case "number": return finite(value) ? value : text(value);
      case "bigint": return toNumber(value);
      case "undefined": return null;
      case "symbol": case "function": return {};
    }
    if (value === null) return null;
    for (let at = inside; at; at = at.outer) {
      if (at.value === value) throw new TypeError("the value of the script contains itself");
    }
    const here = { value: value, outer: inside };
    if (value instanceof AnyString || value instanceof AnyNumber || value instanceof AnyBoolean) {
      return shown(value.valueOf(), here);
    }
    if (isList(value) || isBuffer(value)) {
      const list = [];
      for (let index = 0; index < value.length; index++) list[index] = shown(value[index], here);
      return list;
    }
    const object = {};
    function put(key, one) {
      define(object, key, { value: one, enumerable: true, configurable: true, writable: true });
    }
    if (value instanceof AnyMap) {
      apply(each, value, [function (one, key) { put(text(key), shown(one, here)); }]);
      return object;
    }
    for (const key of keys(value)) put(key, shown(value[key], here));
    return object;
  }
  function problem(error, place) {
    return '{"error":' + stringify("`" + text(error) + "`" + (place ? " at line " + place[1] : "")) + "}";
  }
  return function (script, data) {
    globalThis.$ = parse(data);
    let value;
    try {
      value = evaluate(script);
    } catch (error) {
      return problem(error, error instanceof AnyError ? apply(ofText, text(error.stack), [lines]) : null);
    }
    try {
      return '{"value":' + stringify(shown(value, null)) + "}";
    } catch (error) {
      return problem(error, null);
    }
  };
})()
"""


def main(arguments: list[str]) -> None:
    """Answer requests until there are no more."""
    memory_bytes, script_memory_bytes, cpu_s, answer_bytes = (int(number) for number in arguments[:4])
    engines = {name: _load(name, path) for name, path in (entry.split("=", 1) for entry in arguments[4:])}
    os.environ.clear()  # `env` of jq would show it
    _confine(memory_bytes)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while line := requests.readline():
        request = json.loads(line)
        # The whole process counts, so that what earlier scripts have used is added.
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + cpu_s + 2, resource.RLIM_INFINITY))
        answer = _answer(engines, request, script_memory_bytes, cpu_s)
        if len(answer) > answer_bytes:
            answer = json.dumps({"error": f"the value of the script has more than {answer_bytes} bytes"})
        answers.write(answer.encode() + b"\n")
        answers.flush()


def _load(name: str, path: str) -> Any:
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is no extension module")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _confine(memory_bytes: int) -> None:
    """From here on: no more memory than this, no files, no processes, no core dump."""
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
        except (OSError, ValueError):  # macOS does not know all of them; the engines have limits of their own
            continue


def _answer(engines: dict[str, Any], request: dict[str, str], memory_bytes: int, cpu_s: int) -> str:
    try:
        if request["language"] == "jq":
            return _jq(engines["jq"], request["script"], request["data"])
        return _javascript(engines["_quickjs"], request["script"], request["data"], memory_bytes, cpu_s)
    except MemoryError:
        return json.dumps({"error": "the script needs more memory than it may have"})


def _javascript(quickjs: Any, script: str, data: str, memory_bytes: int, cpu_s: int) -> str:
    context = quickjs.Context()
    runner = context.eval(_RUNNER)
    context.set_memory_limit(memory_bytes)
    context.set_time_limit(cpu_s)
    try:
        answer: str = runner(script, data)
    except quickjs.StackOverflow:
        return json.dumps({"error": "`RangeError: Maximum call stack size exceeded`"})
    except quickjs.JSException as error:
        said = str(error).partition("\n")[0].strip()
        if "interrupted" in said:
            return json.dumps({"overrun": True})
        if "out of memory" in said or said in ("", "null"):
            return json.dumps({"error": "the script needs more memory than it may have"})
        return json.dumps({"error": f"`{said}`"})
    return answer


def _jq(jq: Any, script: str, data: str) -> str:
    try:
        values = jq.compile(script).input_text(data).text()
    except ValueError as error:
        return json.dumps({"error": str(error).strip()})
    # One value a line; a line feed inside of a string is written as \\n.
    return f'{{"value":[{",".join(values.split(chr(10)) if values else ())}]}}'


if __name__ == "__main__":
    main(sys.argv[1:])
