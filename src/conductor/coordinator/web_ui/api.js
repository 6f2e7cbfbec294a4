// Calls of the coordinator's REST API. A token is stored for this tab only.

const TOKEN = "conductor-token";
let askForKey = null;
let asking = null;

/** An error answer. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Set the function that asks the user for { keyId, keySecret }, and calls its argument with them until it succeeds. */
export function onKeyNeeded(ask) {
  askForKey = ask;
}

/** Whether this tab has signed in. */
export const signedIn = () => sessionStorage.getItem(TOKEN) !== null;

/** Forget the token. */
export const signOut = () => sessionStorage.removeItem(TOKEN);

/** The header with the token, if this tab has signed in. */
export function authHeaders() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { "X-Authorization": token } : {};
}

async function send(method, path, body) {
  const headers = authHeaders();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
}

async function sendOrFail(method, path, body) {
  try {
    return await send(method, path, body);
  } catch {
    throw new ApiError(0, "the coordinator does not answer");
  }
}

async function read(response) {
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.includes("json");
  let value = text;
  if (isJson && text) value = JSON.parse(text);
  if (response.ok) return response.status === 204 ? null : value;
  const problems = value?.validationErrors?.map((one) => one.message).join("; ");
  throw new ApiError(response.status, problems || value?.message || `${response.status} ${response.statusText}`);
}

/** Make a call; ask for key and secret if the coordinator requires them. */
export async function call(method, path, body) {
  const before = sessionStorage.getItem(TOKEN);
  const response = await sendOrFail(method, path, body);
  if (response.status !== 401 || !askForKey) return read(response);
  if (sessionStorage.getItem(TOKEN) === before) {
    asking ??= signIn().finally(() => (asking = null));
    await asking;
  }
  return read(await sendOrFail(method, path, body));
}

async function signIn() {
  signOut();
  await askForKey(async (shown) => {
    const response = await sendOrFail("POST", "/api/token", shown);
    if (response.status === 401) throw new ApiError(401, "Unknown key or wrong secret.");
    sessionStorage.setItem(TOKEN, (await read(response)).token);
  });
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const put = (path, body) => call("PUT", path, body);
export const remove = (path) => call("DELETE", path);

/** A path with its query; empty values are left out. */
export function withQuery(path, query) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return kept.length ? `${path}?${new URLSearchParams(kept)}` : path;
}
