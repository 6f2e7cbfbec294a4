// Runs a script and returns its value as JSON, converted as Conductor converts it. This file evaluates to
// a function. Its argument is a function that prepares the data of a script, or null.
//
// The code saves the functions that it uses before the script runs, because a script can replace them.
(function (prepare) {
  "use strict";
  const evaluate = eval, parse = JSON.parse, stringify = JSON.stringify, isList = Array.isArray, text = String;
  const keys = Object.keys, toNumber = Number, finite = Number.isFinite, ofText = String.prototype.match;
  const isBuffer = ArrayBuffer.isView, apply = Reflect.apply, each = Map.prototype.forEach, AnyMap = Map;
  const define = Object.defineProperty, AnyError = Error;
  const AnyString = String, AnyNumber = Number, AnyBoolean = Boolean, lines = /:(\d+):\d+\)?$/m;
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
