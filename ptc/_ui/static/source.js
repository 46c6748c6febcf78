// A script with line numbers, the number of calls of each line, and lit lines.

import { count, h, visible } from "./dom.js";

const TOKEN = /(#[^\n]*)|("""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|[rbfu]{0,2}"(?:\\.|[^"\\\n])*"?|[rbfu]{0,2}'(?:\\.|[^'\\\n])*'?)|\b(async|await|def|return|for|in|if|elif|else|while|try|except|finally|raise|with|as|import|from|not|and|or|is|None|True|False|lambda|class|yield|pass|break|continue|del|global|nonlocal|assert|match|case)\b/g;
const KINDS = [null, "t-comment", "t-string", "t-word"];
const MOST_COLOURED = 200_000;

// Returns the lines as lists of [class, text].
function tokens(source) {
  const lines = [[]];
  const put = (kind, text) => {
    text.split("\n").forEach((part, index) => {
      if (index) lines.push([]);
      if (part) lines[lines.length - 1].push([kind, part]);
    });
  };
  if (source.length > MOST_COLOURED) {
    put(null, source);
    return lines;
  }
  let from = 0;
  for (const match of source.matchAll(TOKEN)) {
    put(null, source.slice(from, match.index));
    put(KINDS[match.findIndex((group, index) => index && group !== undefined)], match[0]);
    from = match.index + match[0].length;
  }
  put(null, source.slice(from));
  return lines;
}

export class Source {
  constructor(source, on) {
    this.lines = [];
    this.lit = null;
    this.here = null;
    const rows = tokens(source.replace(/\n$/, "")).map((parts, index) => {
      const line = index + 1;
      const calls = h("span", { class: "n-calls" });
      const node = h("div", { class: "line", "data-line": line },
        h("span", { class: "num", "aria-hidden": "true" }, line),
        h("code", {}, parts.map(([kind, text]) => (kind ? h("span", { class: kind }, visible(text)) : visible(text)))),
        calls);
      this.lines.push({ node, calls });
      return node;
    });
    this.node = h("div", { class: "source", tabindex: "0", role: "region", "aria-label": "Script" }, rows);
    const lineOf = (event) => Number(event.target.closest?.(".line")?.dataset.line ?? 0) || null;
    this.node.addEventListener("pointerover", (event) => on.light(lineOf(event)));
    this.node.addEventListener("pointerleave", () => on.light(null));
    this.node.addEventListener("click", (event) => {
      if (lineOf(event) && !String(getSelection())) on.select(lineOf(event));
    });
  }

  counts(byLine) {
    this.lines.forEach(({ calls }, index) => {
      const number = byLine.get(index + 1)?.length ?? 0;
      const text = number ? `${count(number)} ${number === 1 ? "call" : "calls"}` : "";
      if (calls.textContent !== text) calls.textContent = text;
    });
  }

  light(line, scrolls) {
    if (line !== this.lit) {
      this.lines[(this.lit ?? 0) - 1]?.node.classList.remove("lit");
      this.lines[(line ?? 0) - 1]?.node.classList.add("lit");
      this.lit = line;
    }
    if (scrolls && line) this.#reveal(line);
  }

  // Marks the line at which a replay is stopped, or an error was raised.
  mark(line, kind) {
    this.here?.classList.remove("here", "wrong");
    this.here = this.lines[(line ?? 0) - 1]?.node ?? null;
    this.here?.classList.add(kind);
    if (this.here) this.#reveal(line);
  }

  #reveal(line) {
    const node = this.lines[line - 1]?.node;
    if (!node) return;
    const top = node.offsetTop;
    const { scrollTop, clientHeight } = this.node;
    if (top < scrollTop || top > scrollTop + clientHeight - 40) this.node.scrollTop = top - clientHeight / 3;
  }
}
