// Creates elements with h() and s(). morph() updates the document with as few changes as possible, so that focus,
// scroll position, open sections and text being typed are kept.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Properties that begin with "on" are listeners; children may be nested arrays, null is skipped. */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** An SVG element, like h(). */
export function s(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) listen(element, name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "indeterminate") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  const isTyped = element.nodeName === "TEXTAREA"; // its text is sent back, so it must not change
  element.append(...nodes(children).map((child) => (typeof child === "string" && !isTyped ? withoutControls(child) : child)));
  return element;
}

/** Controls that change the direction of the text after them. They could mirror a whole sentence, so they are shown as escapes. */
const DIRECTION_CONTROLS = /[\u202a-\u202e\u2066-\u2069]/g;

export const withoutControls = (text) => text.replace(DIRECTION_CONTROLS, (one) => `\\u${one.charCodeAt(0).toString(16)}`);

function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

// One listener per type of event, which looks up the handler, so that morph() can replace the handler.
function listen(element, type, handler) {
  element.handlers ??= {};
  if (!(type in element.handlers)) element.addEventListener(type, dispatch);
  element.handlers[type] = handler;
}

function dispatch(event) {
  event.currentTarget.handlers?.[event.type]?.(event);
}

/** Make the children of `parent` equal to `wanted`, changing as little as possible. */
export function morph(parent, ...wanted) {
  morphChildren(parent, nodes(wanted).map((node) => (typeof node === "object" ? node : document.createTextNode(withoutControls(String(node))))));
}

function morphChildren(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.children) if (child.dataset?.key) keyed.set(child.dataset.key, child);
  let at = parent.firstChild;
  for (const node of wanted) {
    const key = node.dataset?.key;
    let old = key ? keyed.get(key) : at;
    if (old && !isSame(old, node)) old = null;
    if (!old) {
      parent.insertBefore(node, at);
      continue;
    }
    if (old !== at) parent.insertBefore(old, at);
    else at = at.nextSibling;
    morphNode(old, node);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function isSame(old, node) {
  return old.nodeType === node.nodeType && old.nodeName === node.nodeName
    && (old.dataset?.key ?? "") === (node.dataset?.key ?? "");
}

function morphNode(old, node) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (name !== "open" && !node.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of node.attributes) {
    if (!(name === "open" && old.nodeName === "DETAILS") && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const type of Object.keys(old.handlers ?? {})) if (!node.handlers?.[type]) delete old.handlers[type], old.removeEventListener(type, dispatch);
  for (const [type, handler] of Object.entries(node.handlers ?? {})) listen(old, type, handler);
  if ("checked" in node && node.nodeName === "INPUT") old.checked = node.checked;
  morphChildren(old, [...node.childNodes]);
  const typed = old.nodeName === "INPUT" || old.nodeName === "TEXTAREA" || old.nodeName === "SELECT";
  if (typed && node.type !== "checkbox" && document.activeElement !== old && old.value !== node.value) old.value = node.value;
}

/** Show a message in a corner, and announce it to screen readers. */
export function say(text, isBad = false) {
  const box = document.getElementById("said");
  const line = h("p", { class: isBad ? "bad" : "good" }, text);
  box.replaceChildren(line);
  setTimeout(() => line.remove(), isBad ? 15000 : 6000);
}
