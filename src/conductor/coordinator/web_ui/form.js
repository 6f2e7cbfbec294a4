// A form made from a JSON schema. jsonForm() adds a switch between the form and the same value as JSON.
//
// A control is { element, read }. read(isStrict) returns the value, or undefined if the field is left out; with isStrict,
// a wrong or missing value throws a FieldError. Fields beyond MAX_CONTROLS and MAX_DEPTH are edited as JSON. Patterns of a
// schema are shown but not evaluated, because a malicious pattern could hang the tab.

import { h } from "./dom.js";
import { fits, isObject, kindOf, parseJson, resolve, unwrap, variantsOf } from "./schema.js";

const MAX_DEPTH = 7;
const MAX_CONTROLS = 250;
const MAX_LABEL = 120;
const MAX_HINT = 600;
let numbered = 0;

/** A problem with one field; `element` gets the focus. */
export class FieldError extends Error {
  constructor(message, element) {
    super(message);
    this.element = element;
  }
}

const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** A schema with one field of any type for each name. */
export const schemaOfNames = (names) => ({ type: "object", properties: Object.fromEntries(names.map((name) => [String(name), {}])) });

/**
 * A form for a value, with a switch to JSON; without a usable schema, only the JSON editor.
 * `label` names the value: "Input". Returns { element, read, readChanged }.
 */
export function jsonForm({ schema, value, label = "Input" }) {
  const root = unwrap(schema);
  const rule = root ? resolve(root, root) : null;
  let form = rule && kindOf(rule) === "object" && (value === undefined || isObject(value)) ? makeForm(rule, root, value) : null;
  const hasSwitch = form !== null;
  let editor = null;
  const holder = h("div", { class: "form-body" });
  const wrong = h("p", { class: "bad", role: "alert" });
  const buttons = ["Form", "JSON"].map((name) => h("button", { type: "button", onclick: () => change(name) }, name));
  const show = () => {
    holder.replaceChildren((form ?? editor).element);
    buttons.forEach((button) => button.setAttribute("aria-pressed", String((button.textContent === "Form") === (form !== null))));
    wrong.textContent = "";
  };
  const change = (name) => {
    if ((name === "Form") === (form !== null)) return;
    try {
      const current = (form ?? editor).read(false);
      if (name === "Form" && !isObject(current)) throw new Error(notAnObject(label));
      [form, editor] = name === "Form" ? [makeForm(rule, root, current), null] : [null, objectEditor(label, current)];
      show();
    } catch (error) {
      wrong.textContent = error.message;
    }
  };
  if (!form) editor = objectEditor(label, value);
  show();
  const initial = stable((form ?? editor).read(false));
  return {
    element: h("div", { class: "json-form" }, hasSwitch ? h("div", { class: "segments small", role: "group", "aria-label": "Edit as" }, buttons) : null, wrong, holder),
    read: () => (form ?? editor).read(true),
    /** The value if the user has changed it, else undefined. */
    readChanged: () => (stable((form ?? editor).read(false)) === initial ? undefined : (form ?? editor).read(true)),
  };
}

/** JSON with sorted keys. */
const stable = (value) => JSON.stringify(value, (key, one) => (isObject(one) ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one));

function makeForm(rule, root, value) {
  const form = fieldsOf(rule, { root, depth: 0, budget: { left: MAX_CONTROLS } }, value, "");
  return { element: form.element, read: (isStrict) => form.read(isStrict) ?? {} };
}

const notAnObject = (label) => `The ${label.toLowerCase()} must be a JSON object, like {"name": "Ada"}`;

/** A JSON editor for a whole object. */
function objectEditor(label, value) {
  const id = `form-${++numbered}`;
  const area = h("textarea", { id, rows: 10, spellcheck: "false", value: JSON.stringify(value ?? {}, null, 2) });
  return { element: h("div", { class: "field" }, h("label", { for: id }, `${label}, as JSON`), area), read: () => {
    const found = area.value.trim() ? caught(() => parseJson(area.value, `The ${label.toLowerCase()}`), area) : {};
    if (!isObject(found)) throw new FieldError(notAnObject(label), area);
    return found;
  } };
}

function caught(work, element) {
  try {
    return work();
  } catch (error) {
    throw new FieldError(error.message, element);
  }
}

// -- controls

/** The control for a rule of the schema. `about` has key, label (its name in messages), isRequired and value. */
function control(rule, context, about) {
  const resolved = resolve(rule, context.root);
  const value = about.value === undefined ? resolved.default : about.value;
  context.budget.left--;
  const isTooMuch = context.depth >= MAX_DEPTH || context.budget.left <= 0;
  let kind = kindOf(resolved);
  if (value !== undefined && !(value === null && resolved.nullable) && !fits(kind, value, resolved)) kind = "any";
  if (isTooMuch && ["object", "array", "variants"].includes(kind)) kind = "json";
  const given = { ...about, value: value === null && resolved.nullable && kind !== "any" ? undefined : value, initial: value };
  return CONTROLS[kind](resolved, context, given);
}

const CONTROLS = {
  string: textControl, integer: numberControl, number: numberControl, boolean: booleanControl, enum: enumControl,
  const: constControl, any: anyControl, json: jsonControl, object: objectControl, array: arrayControl, variants: variantControl,
};

/** A label, an input and a hint. */
function labelled(rule, about, input, hints = []) {
  const id = `form-${++numbered}`;
  const hint = cut([typeof rule.description === "string" ? rule.description : "", ...hints].filter(Boolean).join(" · "), MAX_HINT);
  input.id = id;
  if (about.isRequired) input.setAttribute("aria-required", "true");
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  return h("div", { class: "field" }, h("label", { for: id }, ...nameOf(rule, about)), input, hint ? h("small", { id: `${id}-hint`, class: "quiet" }, hint) : null);
}

function nameOf(rule, about) {
  const title = typeof rule.title === "string" && rule.title.trim() ? cut(rule.title, MAX_LABEL) : null;
  const key = cut(about.key, MAX_LABEL);
  const isSame = !title || title.toLowerCase().replaceAll(" ", "_") === key.toLowerCase();
  return [isSame ? key : [title, h("code", { class: "quiet" }, ` ${key}`)], about.isRequired && !about.isItem ? h("span", { class: "required", "aria-hidden": "true" }, " *") : null];
}

/** A control with one input whose text is the value. An untouched input keeps the value that it was made with. */
function typed(rule, about, input, shown, hints, parse) {
  input.value = shown;
  const before = input.value; // a browser normalizes line ends and drops what is not a date
  return { element: labelled(rule, about, input, hints), read: (isStrict) => {
    if (input.value === before && about.initial !== undefined) return about.initial;
    if (input.value === "") {
      if (about.isRequired && isStrict) throw new FieldError(`${about.label} is required`, input);
      return undefined;
    }
    return isStrict ? caught(() => parse(input.value), input) : attempt(() => parse(input.value), input.value);
  } };
}

function attempt(work, otherwise) {
  try {
    return work();
  } catch {
    return otherwise;
  }
}

const FORMATS = { date: "date", time: "time", password: "password" };
const MODES = { email: "email", uri: "url", url: "url" };

function textControl(rule, context, about) {
  const isLong = rule.maxLength > 200 || rule.format === "textarea" || (typeof about.value === "string" && (about.value.length > 100 || about.value.includes("\n")));
  const input = isLong ? h("textarea", { rows: 4, class: "prose" })
    : h("input", { type: FORMATS[rule.format] ?? "text", inputmode: MODES[rule.format], autocomplete: "off", placeholder: rule.format === "date-time" ? "2026-01-31T09:00:00Z" : exampleOf(rule) });
  const hints = [typeof rule.pattern === "string" ? `Pattern: ${cut(rule.pattern, 80)}` : null];
  return typed(rule, about, input, about.value ?? "", hints, (text) => {
    if (text.length > rule.maxLength) throw new Error(`${about.label} has at most ${rule.maxLength} characters, not ${text.length}`);
    if (text.length < rule.minLength) throw new Error(`${about.label} has at least ${rule.minLength} characters, not ${text.length}`);
    return text;
  });
}

const exampleOf = (rule) => (Array.isArray(rule.examples) && ["string", "number"].includes(typeof rule.examples[0]) ? cut(String(rule.examples[0]), 60) : null);

function numberControl(rule, context, about) {
  const isWhole = kindOf(rule) === "integer";
  const input = h("input", { type: "text", inputmode: isWhole ? "numeric" : "decimal", autocomplete: "off", class: "number", placeholder: exampleOf(rule) });
  const least = rule.minimum;
  const most = rule.maximum;
  const isBound = (one) => typeof one === "number";
  const range = isBound(least) && isBound(most) ? `from ${least} to ${most}` : isBound(least) ? `at least ${least}` : isBound(most) ? `at most ${most}` : null;
  return typed(rule, about, input, about.value === undefined ? "" : String(about.value), [range], (text) => {
    const number = Number(text.trim() || NaN);
    if (!Number.isFinite(number)) throw new Error(`${about.label} must be a number, not "${cut(text, 40)}"`);
    if (isWhole && !Number.isInteger(number)) throw new Error(`${about.label} must be a whole number, not ${cut(text, 40)}`);
    if (isWhole && !Number.isSafeInteger(number)) throw new Error(`${about.label}: the browser cannot send ${cut(text, 40)} exactly. Send it from a program`);
    if (number < least || number > most) throw new Error(`${about.label} must be ${range}, not ${number}`);
    if (number <= rule.exclusiveMinimum) throw new Error(`${about.label} must be more than ${rule.exclusiveMinimum}`);
    if (number >= rule.exclusiveMaximum) throw new Error(`${about.label} must be less than ${rule.exclusiveMaximum}`);
    return number;
  });
}

function booleanControl(rule, context, about) {
  let isTouched = false;
  const box = h("input", { type: "checkbox", checked: about.value === true, onchange: () => (isTouched = true) });
  const element = labelled(rule, about, box);
  element.classList.add("check");
  return { element, read: () => (isTouched || (about.isRequired && about.initial === undefined) ? box.checked : about.initial) };
}

function enumControl(rule, context, about) {
  const at = rule.enum.findIndex((one) => one === about.value);
  const needsEmpty = !about.isRequired || at < 0;
  const select = h("select", null, needsEmpty ? h("option", { value: "" }, about.isRequired ? "Choose …" : "–") : null,
    rule.enum.map((one, index) => h("option", { value: index, selected: index === at }, cut(one === null ? "null" : String(one), MAX_LABEL))));
  return { element: labelled(rule, about, select), read: (isStrict) => {
    if (select.value !== "") return rule.enum[Number(select.value)];
    if (about.isRequired && isStrict) throw new FieldError(`${about.label} is required: choose a value`, select);
    return undefined;
  } };
}

function constControl(rule, context, about) {
  const shown = h("input", { type: "text", disabled: true, value: JSON.stringify(rule.const) });
  return { element: labelled(rule, about, shown), read: () => rule.const };
}

/** A field without a type. A text that is JSON is read as JSON, any other text as a string. */
function anyControl(rule, context, about) {
  const { value } = about;
  const isText = typeof value === "string" && !isJson(value);
  const shown = value === undefined ? "" : isText ? value : JSON.stringify(value, null, 2);
  const input = shown.includes("\n") || shown.length > 100 ? h("textarea", { rows: 4, spellcheck: "false" }) : h("input", { type: "text", autocomplete: "off" });
  return typed(rule, about, input, shown, ["Text, or JSON such as 5, true or [1, 2]"], (text) => (isJson(text) || /^\s*[[{"]/.test(text) ? parseJson(text, about.label) : text));
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function jsonControl(rule, context, about) {
  const shown = about.value === undefined ? "" : JSON.stringify(about.value, null, 2);
  const area = h("textarea", { rows: 4, spellcheck: "false" });
  return typed(rule, about, area, shown, ["As JSON"], (text) => parseJson(text, about.label));
}

// -- controls that contain others

/** The fields of an object. Properties beyond the limit and values without a property are edited as JSON. */
function fieldsOf(rule, context, value, prefix) {
  const required = new Set(Array.isArray(rule.required) ? rule.required : []);
  const all = Object.keys(rule.properties);
  const sorted = all.length > MAX_CONTROLS ? [...all.filter((key) => required.has(key)), ...all.filter((key) => !required.has(key))] : all;
  const shown = sorted.slice(0, Math.max(1, Math.min(sorted.length, context.budget.left)));
  const known = new Set(shown);
  const fields = shown.map((key) => [key, control(rule.properties[key], { ...context, depth: context.depth + 1 }, {
    key, label: prefix + cut(key, MAX_LABEL), isRequired: required.has(key), value: isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined })]);
  const extra = Object.entries(value ?? {}).filter(([key]) => !known.has(key));
  const left = all.length - shown.length;
  const others = extra.length || left ? jsonControl({ description: left ? `${left} more fields of the schema` : "Values that the schema does not name" }, context,
    { key: "Other fields", label: `${prefix}other fields`, value: extra.length ? Object.fromEntries(extra) : undefined, initial: extra.length ? Object.fromEntries(extra) : undefined }) : null;
  return { element: h("div", { class: "fields" }, fields.map(([, one]) => one.element), others?.element), read: (isStrict) => {
    const found = Object.create(null); // has no prototype, so that __proto__ is an ordinary property
    for (const [key, one] of fields) {
      const read = one.read(isStrict);
      if (read !== undefined) found[key] = read;
    }
    const rest = others?.read(isStrict);
    if (rest !== undefined && isStrict && !isObject(rest)) throw new FieldError(`${prefix}other fields must be a JSON object`, others.element.querySelector("textarea"));
    if (isObject(rest)) for (const [key, one] of Object.entries(rest)) found[key] = one;
    return found;
  } };
}

function group(rule, about, ...children) {
  const hint = typeof rule.description === "string" ? h("p", { class: "quiet" }, cut(rule.description, MAX_HINT)) : null;
  return h("fieldset", null, h("legend", null, ...nameOf(rule, about)), hint, children);
}

/** A nested object. An optional object is created when the user adds it, so that a recursive schema grows only on request. */
function objectControl(rule, context, about) {
  let inner = null;
  const holder = h("div");
  const make = (value) => {
    inner = fieldsOf(rule, { ...context, budget: inner === null && value === undefined && !about.isRequired ? { left: MAX_CONTROLS } : context.budget }, value, `${about.label}.`);
    holder.replaceChildren(inner.element, about.isRequired ? "" : h("button", { type: "button", class: "small", onclick: () => (drop(), holder.querySelector("button").focus()) }, `Remove ${cut(about.key, 40)}`));
  };
  const drop = () => {
    inner = null;
    holder.replaceChildren(h("button", { type: "button", class: "small", onclick: () => (make(), focusFirst(holder)) }, `Add ${cut(about.key, 40)}`));
  };
  if (about.isRequired || about.value !== undefined) make(about.value);
  else drop();
  return { element: group(rule, about, holder), read: (isStrict) => (inner ? inner.read(isStrict) : about.initial === null ? null : undefined) };
}

function arrayControl(rule, context, about) {
  const items = [];
  const list = h("ol", { class: "items" });
  const add = (value) => {
    const number = items.length + 1;
    const one = control(rule.items, { ...context, depth: context.depth + 1 }, { key: `${cut(about.key, 40)} ${number}`, label: `${about.label} ${number}`, isRequired: true, isItem: true, value });
    const entry = { one, row: null };
    entry.row = h("li", null, one.element, h("button", { type: "button", class: "small", "aria-label": `Remove ${cut(about.key, 40)} ${number}`, onclick: () => {
      items.splice(items.indexOf(entry), 1);
      entry.row.remove();
      button.focus();
    } }, "Remove"));
    items.push(entry);
    list.append(entry.row);
    return entry.row;
  };
  const button = h("button", { type: "button", class: "small", onclick: () => {
    context = { ...context, budget: { left: MAX_CONTROLS } };
    focusFirst(add());
  } }, `Add ${cut(about.key, 40)}`);
  const given = Array.isArray(about.value) ? about.value : null;
  for (const value of given ?? []) add(value);
  if (!given && about.isRequired) for (let n = 0; n < Math.min(rule.minItems || 0, 5); n++) add();
  let count = items.length;
  return { element: group(rule, about, list, button), read: (isStrict) => {
    if (!items.length && !count && !given) return about.isRequired ? [] : about.initial === null ? null : undefined;
    count ||= items.length;
    const found = items.map(({ one }) => one.read(isStrict) ?? null);
    if (isStrict && found.length < rule.minItems) throw new FieldError(`${about.label} has at least ${rule.minItems} items, not ${found.length}`, button);
    if (isStrict && found.length > rule.maxItems) throw new FieldError(`${about.label} has at most ${rule.maxItems} items, not ${found.length}`, button);
    return found;
  } };
}

/** One of several schemas (anyOf, oneOf): a choice, and the control of the chosen one. */
function variantControl(rule, context, about) {
  const ways = variantsOf(rule).map((one) => resolve(one, context.root));
  const { anyOf, oneOf, ...base } = rule;
  const titleOf = (one, at) => cut(one.type === "null" ? "null" : typeof one.title === "string" ? one.title : typeof one.type === "string" ? one.type : Object.hasOwn(one, "const") ? JSON.stringify(one.const) : `variant ${at + 1}`, MAX_LABEL);
  const fitting = about.value === undefined ? -1 : ways.findIndex((one) => (one.type === "null" ? about.value === null : fits(kindOf(one), about.value, one) && !["any", "json"].includes(kindOf(one))));
  if (about.value !== undefined && fitting < 0) return anyControl(rule, context, about);
  let inner = null;
  const holder = h("div");
  const select = h("select", { onchange: () => show(undefined, MAX_CONTROLS) }, about.isRequired && fitting < 0 ? h("option", { value: "" }, "Choose …") : about.isRequired ? null : h("option", { value: "" }, "–"),
    ways.map((one, at) => h("option", { value: at, selected: at === fitting }, titleOf(one, at))));
  const show = (value, budget) => {
    const way = select.value === "" ? null : ways[Number(select.value)];
    const isNull = way?.type === "null";
    const inside = budget ? { ...context, budget: { left: budget } } : context;
    inner = way === null ? null : isNull ? { element: null, read: () => null }
      : control({ ...way, title: undefined }, { ...inside, depth: context.depth + 1 }, { ...about, key: "value", isRequired: true, isItem: true, value, initial: value });
    holder.replaceChildren(...(inner?.element ? [inner.element] : []));
  };
  show(about.value);
  const choice = labelled(base, { ...about, key: about.key }, select);
  return { element: h("div", { class: "variants" }, choice, holder), read: (isStrict) => {
    if (inner) return inner.read(isStrict);
    if (about.isRequired && isStrict) throw new FieldError(`${about.label} is required: choose a kind`, select);
    return undefined;
  } };
}

function focusFirst(element) {
  element.querySelector("input:not(:disabled), select, textarea, button")?.focus();
}
