// Requests to the server. Each has the key of this page, which is not in a cookie.

const STORED = "ptc-key";

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function headers(more) {
  return { "x-ptc-key": localStorage.getItem(STORED) ?? "", ...more };
}

async function answer(response) {
  if (response.ok) return response.json();
  let message = `the server answered ${response.status}`;
  try {
    message = (await response.json()).error ?? message;
  } catch { /* not JSON */ }
  throw new ApiError(response.status, message);
}

export async function get(path, options) {
  return answer(await fetch(path, { headers: headers(), ...options }));
}

export async function post(path, body) {
  return answer(await fetch(path, {
    method: "POST",
    headers: headers({ "content-type": "application/json" }),
    body: JSON.stringify(body),
  }));
}

export async function signIn() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  // Before anything else, so that the token does not stay in the history of the browser.
  history.replaceState(null, "", location.pathname + location.search);
  const found = await post("/api/login", { token });
  localStorage.setItem(STORED, found.key);
}

export async function signOut() {
  await post("/api/logout", {});
  localStorage.removeItem(STORED);
}

export async function download(path, name) {
  const response = await fetch(path, { headers: headers() });
  if (!response.ok) return answer(response);
  const url = URL.createObjectURL(new Blob([await response.arrayBuffer()],
    { type: "application/octet-stream" }));
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// Server-sent events over fetch, since EventSource cannot send the key.
export function stream(path, handlers, onState) {
  const stop = new AbortController();
  let wait = 500;
  async function once() {
    const response = await fetch(path, { headers: headers(), signal: stop.signal });
    if (!response.ok) await answer(response);
    onState?.("live");
    wait = 500;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let parts = [];
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return false;
      parts.push(value);
      if (!value.includes("\n\n")) continue;
      const blocks = parts.join("").split("\n\n");
      parts = [blocks.pop()];
      for (const block of blocks) {
        const event = /^event: (.*)$/m.exec(block)?.[1];
        const data = /^data: (.*)$/m.exec(block)?.[1];
        if (!event) continue;
        if (event === "over") return true;
        handlers[event]?.(JSON.parse(data));
      }
    }
  }
  (async () => {
    while (!stop.signal.aborted) {
      try {
        if (await once()) {
          onState?.("over");
          return;
        }
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error instanceof ApiError && error.status < 500) {
          handlers.failed?.({ error: error.message, status: error.status });
          onState?.("over");
          return;
        }
      }
      onState?.("lost");
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(wait * 2, 10_000);
      handlers.restart?.();
    }
  })();
  return () => stop.abort();
}
