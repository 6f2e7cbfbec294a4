// What the key of this tab may do. Views hide the actions that the coordinator would refuse.

import { authHeaders, get } from "./api.js";

let own = null; // the last answer of /api/view/key
let readWith; // the token with which `own` was read

const token = () => authHeaders()["X-Authorization"];

/** Read the roles of this tab's key, unless they were already read with the current token. */
export async function loadAccess() {
  if (own !== null && readWith === token()) return;
  own = await get("/api/view/key");
  readWith = token();
  document.documentElement.classList.toggle("cannot-start", !mayStart()); // hides the start buttons in the list of workflows
}

const has = (...roles) => own !== null && roles.some((role) => own.roles.includes(role));

/** The name and the roles of the key. */
export const ownKey = () => own;
/** Whether the key may open the web UI. */
export const mayRead = () => has("viewer", "operator", "admin");
/** Whether the key may act on workflows, complete tasks, manage schedules and read the audit trail. */
export const mayOperate = () => has("operator", "admin");
/** Whether the key may manage definitions, secrets and keys. */
export const isAdmin = () => has("admin");
/** Whether the key may start registered workflows. */
export const mayStart = () => has("starter", "operator", "admin");
