// View: an address that does not exist.

import { h } from "./dom.js";

export const title = () => "Not found";
export const isLive = () => false;
export const load = async () => ({});

export const render = () => lost(h("p", null, "The address ", h("code", null, location.pathname), " does not exist."));

/** A page that says what was not found, with links to other pages. */
export function lost(what) {
  return h("div", { class: "blank" }, h("h1", null, "Not found"), what,
    h("p", null, h("a", { href: "/workflows" }, "Show all workflows"), ", ",
      h("button", { type: "button", class: "small", onclick: () => document.querySelector("#bar input[type=search]")?.focus() }, "search"), " by id, name or correlation id, or go to the ", h("a", { href: "/" }, "overview"), "."));
}
