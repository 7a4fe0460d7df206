// The way to the API: one function a method. What goes wrong is thrown as a Problem, whatever it was.

import { parse, stringify } from "./json";

export type FieldProblem = { field: string; value: string; want: string };

/** Problem is an error answer of the API, or what stands for one where nothing answered. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly title: string,
    readonly detail: string,
    readonly errors: FieldProblem[] = [],
    readonly requestId = "",
    readonly retryAfter = 0,
  ) {
    super(detail || title);
    this.name = "Problem";
  }

  /** advice says what to do about it. */
  get advice(): string {
    switch (this.status) {
      case 0:
        return "Check that the server runs and that you can reach it. The page tries again by itself.";
      case 401:
        return "Sign in again.";
      case 403:
        return "Ask someone whose role allows it, or sign in with another key.";
      case 404:
        return "It may have been deleted, or it belongs to another tenant.";
      case 409:
        return "Check its current state, then decide again.";
      case 412:
        return "Someone else changed it meanwhile. Reload it and repeat your change.";
      case 413:
        return "Send less at once.";
      case 429:
      case 503:
        return this.retryAfter ? `Wait ${this.retryAfter} s, then try again.` : "Wait a moment, then try again.";
    }
    if (this.errors.length) return "Correct the fields below.";
    return this.status >= 500 ? "Try again. If it keeps failing, give the request id to the operator of the server." : "";
  }
}

/** isProblem reports whether something thrown is a Problem of one of the statuses. */
export function isProblem(e: unknown, ...statuses: number[]): e is Problem {
  return e instanceof Problem && (statuses.length === 0 || statuses.includes(e.status));
}

export type Params = Record<string, string | number | boolean | null | undefined>;

/** address is a path of the API with parameters; what is empty is left out. */
export function address(path: string, params?: Params): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(params ?? {})) if (v !== undefined && v !== null && v !== "") q.set(k, String(v));
  const s = q.toString();
  return "/api/v1" + path + (s ? "?" + s : "");
}

// How far this machine's clock is behind the server's, in ms; 0 where they agree within the second that headers tell.
let skew = 0;

/** serverNow is the instant by the server's clock. */
export const serverNow = () => Date.now() + skew;

let onUnauthorized = () => {};

/** whenUnauthorized says what is done where a call is refused for want of a credential. */
export function whenUnauthorized(f: () => void) {
  onUnauthorized = f;
}

let onAnswer = () => {};

/** whenAnswered says what is done whenever the server has answered, be it with a refusal. */
export function whenAnswered(f: () => void) {
  onAnswer = f;
}

export type Sending = { body?: unknown; key?: string; headers?: Record<string, string>; signal?: AbortSignal };

async function send(method: string, url: string, s: Sending): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", ...s.headers };
  if (s.body !== undefined) headers["Content-Type"] = "application/json";
  // The same key for the same click: an answer that was lost on the way is given again, nothing is done twice.
  if (method === "POST") headers["X-Idempotency-Key"] = s.key ?? newKey();
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (s.body !== undefined) init.body = stringify(s.body);
  if (s.signal) init.signal = s.signal;
  let r: Response;
  try {
    r = await fetch(url, init);
  } catch (e) {
    if (e instanceof DOMException && e.name === "AbortError") throw e;
    throw new Problem(0, "unreachable", "The server does not answer", "Nothing came back from " + location.host + ".");
  }
  if (r.status < 500) onAnswer(); // what stands before a server that is gone answers with more
  const date = Date.parse(r.headers.get("Date") ?? "");
  if (!Number.isNaN(date)) {
    const off = date + 500 - Date.now();
    skew = Math.abs(off) > 2000 ? off : 0;
  }
  if (!r.ok) throw await problemOf(r);
  return r;
}

async function problemOf(r: Response): Promise<Problem> {
  if (r.status === 401) onUnauthorized();
  const wait = Number(r.headers.get("Retry-After")) || 0;
  let p: Partial<{ code: string; title: string; detail: string; errors: FieldProblem[]; request_id: string }> = {};
  try {
    p = (await r.json()) as typeof p;
  } catch {
    // Whatever stands between us and the server has answered in its own way.
  }
  return new Problem(r.status, p.code ?? "http_" + r.status, p.title ?? `The server answered ${r.status}`, p.detail ?? "", p.errors ?? [], p.request_id ?? r.headers.get("X-Request-ID") ?? "", wait);
}

/** newKey is an idempotency key. */
export const newKey = () => (crypto.randomUUID ? crypto.randomUUID() : Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join(""));

async function call<T>(method: string, path: string, params: Params | undefined, s: Sending): Promise<T> {
  const r = await send(method, address(path, params), s);
  const text = await r.text();
  return (text ? parse(text) : undefined) as T;
}

/** download fetches a file and has the browser keep it under the name that the server gives it. */
export async function download(path: string): Promise<void> {
  const r = await send("GET", address(path), {});
  const name = /filename="?([^";]+)/.exec(r.headers.get("Content-Disposition") ?? "")?.[1] ?? "download";
  keepFile(name, await r.blob());
}

/** keepFile has the browser keep a file. */
export function keepFile(name: string, what: Blob) {
  const url = URL.createObjectURL(what);
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export const get = <T>(path: string, params?: Params, signal?: AbortSignal) => call<T>("GET", path, params, signal ? { signal } : {});
export const post = <T>(path: string, body?: unknown, s: Sending = {}) => call<T>("POST", path, undefined, body === undefined ? s : { ...s, body });
export const patch = <T>(path: string, body: unknown, s: Sending = {}) => call<T>("PATCH", path, undefined, { ...s, body });
export const put = <T>(path: string, body: unknown, s: Sending = {}) => call<T>("PUT", path, undefined, { ...s, body });
export const del = <T>(path: string, params?: Params, s: Sending = {}) => call<T>("DELETE", path, params, s);
