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
from typing import Any

#: Methods of Java's lists and maps. In Conductor the data of a script are Java objects and have these methods. A script
#: that names none of them gets plain data, because preparing the data takes longer than parsing it.
_JAVA_METHOD = re.compile(
    r"\b(?:add|addAll|clear|contains|containsAll|containsKey|containsValue|entrySet|equals|forEach|get|getOrDefault"
    r"|isEmpty|iterator|keySet|put|putAll|putIfAbsent|remove|set|size|subList|values)\b"
)
#: Adds Java's methods to data. The methods of lists are in Array.prototype. The methods of maps are in a prototype
#: between the map and Object.prototype: a `get` in Object.prototype would be inherited by every property descriptor.
#: A key of the data hides the method of the same name. Enumerations do not show the methods.
_WITH_JAVA_METHODS = """
(function () {
  "use strict";
  const own = Object.prototype.hasOwnProperty, isList = Array.isArray, define = Object.defineProperty;
  const keys = Object.keys, listValues = Object.values;
  const JavaMap = {}, Entry = {};
  function has(map, key) { return own.call(map, key); }
  function look(map, key) { return has(map, key) ? map[key] : null; }
  function put(map, key, value) {
    define(map, key, { value: value, enumerable: true, configurable: true, writable: true });
  }
  function equal(left, right) {
    if (left === right) return true;
    if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return false;
    const names = keys(left);
    return isList(left) === isList(right) && names.length === keys(right).length
      && names.every(function (name) { return has(right, name) && equal(left[name], right[name]); });
  }
  function find(list, value) { return list.findIndex(function (one) { return equal(one, value); }); }
  function checked(index, end, list) {
    if (index >= 0 && index < end) return index;
    throw new RangeError("Index " + index + " out of bounds for length " + list.length);
  }
  function add(target, methods) {
    for (const name of keys(methods)) {
      define(target, name, { value: methods[name], configurable: true, writable: true });
    }
  }
  add(Array.prototype, {
    get(index) { return this[checked(index, this.length, this)]; },
    set(index, value) {
      const before = this[checked(index, this.length, this)];
      this[index] = value;
      return before;
    },
    size() { return this.length; },
    isEmpty() { return this.length === 0; },
    contains(value) { return find(this, value) >= 0; },
    containsAll(values) { return values.every((value) => find(this, value) >= 0); },
    add(...given) {
      if (given.length < 2) return this.push(given[0]) > 0;
      this.splice(checked(given[0], this.length + 1, this), 0, given[1]);
    },
    addAll(values) {
      for (const value of [...values]) this.push(value);
      return values.length > 0;
    },
    remove(value) {
      if (typeof value === "number") return this.splice(checked(value, this.length, this), 1)[0];
      const index = find(this, value);
      return index >= 0 && this.splice(index, 1).length > 0;
    },
    clear() { this.length = 0; },
    subList(from, to) { return this.slice(checked(from, to + 1, this), checked(to, this.length + 1, this)); },
    equals(other) { return equal(this, other); },
    iterator() {
      let at = 0;
      return { hasNext: () => at < this.length, next: () => this[checked(at++, this.length, this)] };
    },
  });
  add(JavaMap, {
    get(key) { return look(this, key); },
    getOrDefault(key, other) { return has(this, key) ? this[key] : other; },
    put(key, value) {
      const before = look(this, key);
      put(this, key, value);
      return before;
    },
    putIfAbsent(key, value) {
      const before = look(this, key);
      if (before === null) put(this, key, value);
      return before;
    },
    putAll(other) { for (const key of keys(other)) put(this, key, other[key]); },
    remove(key) {
      const before = look(this, key);
      delete this[key];
      return before;
    },
    clear() { for (const key of keys(this)) delete this[key]; },
    size() { return keys(this).length; },
    isEmpty() { return keys(this).length === 0; },
    containsKey(key) { return has(this, key); },
    containsValue(value) { return find(listValues(this), value) >= 0; },
    keySet() { return keys(this); },
    values() { return listValues(this); },
    entrySet() { return keys(this).map((key) => ({ __proto__: Entry, key: key, value: this[key] })); },
    forEach(action) { for (const key of keys(this)) action(key, this[key]); },
    equals(other) { return equal(this, other); },
  });
  add(Entry, { getKey() { return this.key; }, getValue() { return this.value; } });
  // A copy of each map, because objects that change their prototype take several times the memory.
  return function copy(data) {
    if (typeof data !== "object" || data === null) return data;
    if (isList(data)) {
      for (let index = 0; index < data.length; index++) data[index] = copy(data[index]);
      return data;
    }
    const map = { __proto__: JavaMap };
    for (const key of keys(data)) {
      if (key === "__proto__") put(map, key, copy(data[key]));
      else map[key] = copy(data[key]);
    }
    return map;
  };
})()
"""
#: Runs a script and returns its value as JSON, converted as Conductor converts it. The runner saves the functions that
#: it uses before the script runs, because a script can replace them.
_RUNNER = """
(function (prepare) {
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
  // `stringify` builds every answer: the engine stores a long concatenation as a rope, which Python cannot read.
  // Answers have no prototype, so that a `toJSON` of the script cannot replace them.
  function problem(error, place) {
    return stringify({ __proto__: null, error: "`" + text(error) + "`" + (place ? " at line " + place[1] : "") });
  }
  return function (script, data) {
    globalThis.$ = prepare ? prepare(parse(data)) : parse(data);
    let value;
    try {
      value = evaluate(script);
    } catch (error) {
      return problem(error, error instanceof AnyError ? apply(ofText, text(error.stack), [lines]) : null);
    }
    try {
      return stringify({ __proto__: null, value: shown(value, null) });
    } catch (error) {
      return problem(error, null);
    }
  };
})
"""

_OUT_OF_MEMORY = "the script exceeded its memory limit"


def main(arguments: list[str]) -> None:
    """Answer requests until stdin is closed."""
    memory_bytes, script_memory_bytes, answer_bytes = (int(number) for number in arguments[:3])
    engines = {name: _load(name, path) for name, path in (entry.split("=", 1) for entry in arguments[3:])}
    os.environ.clear()  # jq can read it with `env`
    _confine(memory_bytes)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    answers.write(b"ready\n")  # the time limit of a script starts here, after the start of the process
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
    methods = _WITH_JAVA_METHODS.strip() if _JAVA_METHOD.search(script) else "null"
    runner = context.eval(f"{_RUNNER.strip()}({methods})")
    context.set_memory_limit(memory_bytes)
    context.set_time_limit(cpu_s)
    try:
        answer: str = runner(script, data)
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
