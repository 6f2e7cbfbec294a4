// Adds the methods of Java's lists and maps to the data of a script. This file evaluates to a function that
// returns the data with these methods.
//
// The methods of lists are in Array.prototype. The methods of maps are in a prototype between the map and
// Object.prototype: a `get` in Object.prototype would be inherited by every property descriptor. A key of the data
// hides the method of the same name. Enumerations do not show the methods.
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
