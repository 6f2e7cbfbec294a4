// Page for a key that may not open a view, or has no role for the web UI. The page says what the key is for.

import { ownKey, mayRead } from "./access.js";
import { h } from "./dom.js";
import { command } from "./words.js";

/** What the roles are for that do not open the web UI: a sentence, and a command that uses the key. */
const USES = {
  worker: ["A key with the role worker polls and reports tasks. To give it to a worker,", ["conductor-worker", "run", "MODULE"]],
  starter: ["A key with the role starter starts registered workflows, and reads the workflows that it has started. To start one,", ["conductor-worker", "workflow", "start", "NAME", "--wait"]],
  metrics: ["A key with the role metrics reads the metrics at /metrics.", null],
};

export const title = () => "Not for this key";

/** `needed` are the roles that may open the view. */
export function render(needed, signInAgain) {
  const { name, roles } = ownKey();
  const uses = mayRead() ? [] : roles.filter((role) => USES[role]).map((role) => USES[role]);
  const settings = "set CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET, and run:";
  return h("div", { class: "blank" }, h("h1", null, title()),
    h("p", null, "The key ", h("strong", null, name), ` has the ${roles.length === 1 ? "role" : "roles"} ${roles.join(", ")}. ${mayRead() ? "This view" : "The web UI"} needs the role ${needed}.`),
    uses.map(([text, words]) => [h("p", null, text, words ? ` ${settings}` : null), words ? command(...words) : null]),
    h("p", null, mayRead() ? [h("a", { href: "/" }, "Go to the overview"), " or "] : null, h("button", { type: "button", class: "small", onclick: signInAgain }, "Sign in with another key")));
}
