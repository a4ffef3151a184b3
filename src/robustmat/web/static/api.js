// Requests to the server, with its token if it has one; errors carry the server's own words.

const TOKEN = "robustmat-token";
let token = sessionStorage.getItem(TOKEN) ?? "";

const fragment = new URLSearchParams(location.hash.slice(1));
if (fragment.has("token")) {
  useToken(fragment.get("token"));
  history.replaceState(null, "", location.pathname);
}

export function useToken(text) {
  token = text;
  sessionStorage.setItem(TOKEN, text);
}

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// `body` is a function that makes the form anew, since a busy server is asked again.
export async function ask(path, { body = null, signal, onBusy } = {}) {
  for (let attempt = 0; ; attempt += 1) {
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    let answer;
    try {
      answer = await fetch(`api/v1/${path}`, { method: body ? "POST" : "GET", body: body?.(), headers, signal });
    } catch (problem) {
      if (problem.name === "AbortError") throw problem;
      throw new Refused(0, "the server cannot be reached; is it still running?");
    }
    if (answer.ok) return answer.json();
    if (answer.status === 503 && attempt < 8) {
      onBusy?.();
      await pause(700 + 300 * attempt);
      if (signal?.aborted) throw new DOMException("given up", "AbortError");
      continue;
    }
    let detail = `the server answered ${answer.status}`;
    try {
      detail = (await answer.json()).detail ?? detail;
    } catch { /* not JSON: the number must do */ }
    throw new Refused(answer.status, detail);
  }
}

export function form(values) {
  return () => {
    const filled = new FormData();
    for (const [name, value] of Object.entries(values)) {
      if (value instanceof Blob) filled.append(name, value, value.name ?? `${name}.jpg`);
      else if (value !== null && value !== undefined) filled.append(name, typeof value === "object" ? JSON.stringify(value) : String(value));
    }
    return filled;
  };
}
