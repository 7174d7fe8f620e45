// Calls of the server's API. Every error has one shape; a missing token asks for one.

import { quoteName } from "./sql.js";

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.hint = error.hint;
    this.line = error.line;
    this.column = error.column;
  }
}

let signIn = null;

// What to do when the server wants to know who asks; it is awaited, and the call made again.
export function onUnauthorized(ask) {
  signIn = ask;
}

export async function call(path, { method = "GET", body, again = true } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
    });
  } catch {
    throw new ApiError(0, { code: "unreachable", message: "The server does not answer.",
      hint: "See whether it runs; this page goes on by itself when it does." });
  }
  if (response.status === 401 && signIn && again) {
    await signIn();
    return call(path, { method, body, again: true });
  }
  const found = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) {
    throw new ApiError(response.status, found?.error ?? {
      code: "unknown", message: `The server answered ${response.status}.`, hint: null });
  }
  return found;
}

export const runSql = (sql) => call("/sql", { method: "POST", body: { sql } });

// Drop a query or a trigger, and forget it at once: the map's own news may take a moment longer.
export async function dropQuery(live, { name, kind }) {
  const word = kind === "trigger" ? "TRIGGER" : "QUERY";
  const result = await runSql(`DROP ${word} ${quoteName(name)}`);
  live.forget(name);
  return result.message;
}

export const logIn = (token) => call("/login", { method: "POST", body: { token }, again: false });

// How an error is shown: what, where, and what to do about it.
export function describeError(error) {
  const where = error.line ? ` (line ${error.line}, column ${error.column})` : "";
  return `${error.message}${where}${error.hint ? `. ${error.hint}` : ""}`;
}
