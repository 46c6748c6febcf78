// Elements, text and numbers. Data becomes text nodes and attributes only, never markup.

export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  add(node, children);
  return node;
}

export function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

export function announce(text) {
  document.getElementById("status").textContent = text;
}

const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]/g;

// Characters that reorder or hide text are shown by their numbers: a name cannot imitate another.
export function visible(text) {
  return String(text).replace(
    INVISIBLE, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

const number = new Intl.NumberFormat("en-US");

export function count(value) {
  return number.format(value);
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(2)} s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${String(seconds % 60).padStart(2, "0")} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 2880) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} m`;
  return `${Math.floor(minutes / 1440)} days`;
}

export function bytes(value) {
  if (value < 1024) return `${value} B`;
  if (value < 1 << 20) return `${(value / 1024).toFixed(1)} KiB`;
  return `${(value / (1 << 20)).toFixed(1)} MiB`;
}

// US dollars. An unknown price is not 0, and shows nothing.
export function money(value) {
  if (value === null || value === undefined) return "";
  if (value >= 100) return `$${number.format(Math.round(value))}`;
  return `$${value.toFixed(value >= 1 || value === 0 ? 2 : 4)}`;
}

const two = (value) => String(value).padStart(2, "0");

export function time(ms) {
  const date = new Date(ms);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function moment(ms) {
  const date = new Date(ms);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time(ms)}`;
}

const LABELS = {
  timed_out: "timed out", limit_exceeded: "limit exceeded", rolled_back: "rolled back",
  not_started: "not started",
};

export function statusMark(status) {
  return h("span", { class: `state s-${status}` }, LABELS[status] ?? status);
}

export function pretty(text) {
  try {
    const found = JSON.stringify(JSON.parse(text), null, 2);
    return found.length > 200_000 ? text : found;
  } catch {
    return text;
  }
}

// A bounded value: its text, and a line about the part that is not shown.
export function valueBlock(value, label) {
  if (!value) return null;
  return [
    h("pre", { class: "value", tabindex: "0", role: "region", "aria-label": label },
      visible(value.whole ? pretty(value.text) : value.text)),
    value.whole ? null : h("p", { class: "quiet" },
      `The first ${bytes(value.text.length)} of ${bytes(value.bytes)} are shown.`),
  ];
}

export function link(path, text, props) {
  return h("a", { href: path, ...props }, text);
}

export const MEDIA_SMALL = window.matchMedia("(max-width: 759px)");
