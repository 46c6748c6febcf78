// The timeline: an overview of all lanes on a canvas, and a list with one row for each call.

import { ATTEMPT, ARGS, cached, EFFECT, END, ERROR, PATH, START, STATUS, TOOL } from "./calls.js";
import { count, duration, h, visible } from "./dom.js";
import { VirtualList } from "./vlist.js";

const ROW = 26;

export class Timeline {
  // `on.light(call)` lights a line; `on.select(call)` shows the details.
  constructor(calls, on) {
    this.calls = calls;
    this.on = on;
    this.span = [0, 1];
    this.active = -1;
    this.selected = null;
    this.mark = null;
    this.lit = null;
    this.canvas = h("canvas", { class: "lanes", role: "img" });
    this.axis = h("div", { class: "axis", "aria-hidden": "true" });
    this.port = h("div", {
      class: "port calls", role: "listbox", tabindex: "0", "aria-label": "Calls, in order",
      "aria-describedby": "calls-help",
    });
    this.empty = h("p", { class: "quiet pad", hidden: true }, "The script has made no call.");
    this.node = h("div", { class: "timeline" },
      h("div", { class: "overview" }, this.canvas, this.axis),
      this.empty,
      h("p", { id: "calls-help", class: "hidden-text" }, "Arrow keys move, Enter shows the details of a call."),
      this.port);
    this.list = new VirtualList(this.port, ROW, (index) => this.row(index));
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(this.canvas);
    this.#events();
  }

  close() {
    this.list.close();
    this.observer.disconnect();
  }

  update(head, now) {
    this.span = this.calls.span(head, now);
    this.empty.hidden = this.calls.list.length > 0;
    this.port.hidden = !this.empty.hidden;
    this.canvas.setAttribute("aria-label",
      `${count(this.calls.list.length)} calls in ${this.calls.lanes} lanes over ${duration(this.span[1] - this.span[0])}`);
    const [from, to] = this.span;
    this.axis.replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((part) =>
      h("span", {}, part ? duration((to - from) * part) : "0")));
    this.list.setLength(this.calls.list.length);
    this.now = now;
    this.paint();
  }

  place(ms) {
    return Math.max(0, Math.min(1, (ms - this.span[0]) / (this.span[1] - this.span[0])));
  }

  bar(call) {
    const row = call.row;
    const start = this.place(row[START]);
    const end = this.place(row[END] ?? this.now);
    const parts = [];
    if (call.wait) {
      const until = this.place(call.wait[1] ?? this.now);
      parts.push(this.#piece("waited", this.place(call.wait[0]), until));
    }
    if (row[STATUS] !== "waiting") parts.push(this.#piece(cached(row) ? "cached" : row[STATUS], start, end));
    return h("span", { class: "track", "aria-hidden": "true" }, parts);
  }

  #piece(kind, start, end) {
    const node = h("i", { class: `piece p-${kind}` });
    node.style.left = `${start * 100}%`;
    node.style.width = `max(2px, ${(end - start) * 100}%)`;
    return node;
  }

  row(index) {
    const call = this.calls.list[index];
    const row = call.row;
    const took = row[END] === null ? null : row[END] - row[START];
    const tags = [
      cached(row) ? h("span", { class: "tag" }, "cached") : null,
      row[ATTEMPT] > 1 ? h("span", { class: "tag" }, `${row[ATTEMPT]} attempts`) : null,
      row[EFFECT] ? h("span", { class: "tag effect" }, "effect") : null,
      row[STATUS] === "waiting" ? h("span", { class: "tag wait" }, "awaits approval") : null,
      row[ERROR] ? h("span", { class: "tag bad" }, visible(row[ERROR])) : null,
    ];
    const depth = Math.min(call.parts.length - 1, 6);
    const name = h("span", { class: `tool d${depth}` }, h("b", { class: `glyph s-${row[STATUS]}` }), visible(row[TOOL]),
      h("span", { class: "hidden-text" }, `, ${row[STATUS]}${call.line ? `, line ${call.line}` : ""}`));
    const node = h("div", {
      class: "call", role: "option", id: `call-${row[PATH].replaceAll(".", "-")}`,
      "aria-selected": String(call === this.selected),
      "aria-posinset": index + 1, "aria-setsize": this.calls.list.length,
      "data-index": index,
    },
      h("span", { class: "path" }, row[PATH]), name,
      h("span", { class: "args" }, tags, visible(row[ARGS])),
      h("span", { class: "took" }, took === null ? (row[STATUS] === "waiting" ? "" : "…") : duration(took)),
      this.bar(call));
    node.classList.toggle("on", index === this.active);
    node.classList.toggle("lit", this.lit !== null && call.line === this.lit);
    return node;
  }

  #events() {
    const over = (event) => {
      const node = event.target.closest?.(".call");
      if (node) this.on.light(this.calls.list[Number(node.dataset.index)]);
    };
    this.port.addEventListener("pointerover", over);
    this.port.addEventListener("pointerleave", () => this.on.light(this.calls.list[this.active] ?? null));
    this.port.addEventListener("click", (event) => {
      const node = event.target.closest?.(".call");
      if (node) this.activate(Number(node.dataset.index), true);
    });
    this.port.addEventListener("focus", () => {
      // With the pointer, the click that follows chooses the call.
      if (this.active < 0 && this.calls.list.length && this.port.matches(":focus-visible")) this.activate(0, false);
    });
    this.port.addEventListener("keydown", (event) => {
      const page = Math.max(1, Math.floor(this.port.clientHeight / ROW) - 1);
      const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page };
      const last = this.calls.list.length - 1;
      if (event.key in steps) this.activate(Math.max(0, Math.min(last, this.active + steps[event.key])), false);
      else if (event.key === "Home") this.activate(0, false);
      else if (event.key === "End") this.activate(last, false);
      else if (event.key === "Enter" || event.key === " ") this.activate(this.active, true);
      else return;
      event.preventDefault();
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const call = this.at(event);
      this.canvas.title = call ? visible(`${call.row[PATH]} ${call.row[TOOL]}`) : "";
      this.on.light(call);
    });
    this.canvas.addEventListener("pointerleave", () => this.on.light(null));
    this.canvas.addEventListener("click", (event) => {
      const call = this.at(event);
      if (call) this.activate(call.index, true);
    });
  }

  activate(index, opens) {
    if (index < 0 || index >= this.calls.list.length) return;
    this.active = index;
    const call = this.calls.list[index];
    if (opens) this.selected = call;
    this.list.show(index);
    for (const [at, node] of this.list.rows) {
      node.classList.toggle("on", at === index);
      node.setAttribute("aria-selected", String(this.calls.list[at] === this.selected));
    }
    this.port.setAttribute("aria-activedescendant", `call-${call.row[PATH].replaceAll(".", "-")}`);
    this.on.light(call);
    if (opens) this.on.select(call);
    this.paint();
  }

  light(line) {
    if (line === this.lit) return;
    this.lit = line;
    for (const [index, node] of this.list.rows) {
      node.classList.toggle("lit", line !== null && this.calls.list[index]?.line === line);
    }
    this.paint();
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    const lane = Math.floor((event.clientY - box.top) / this.laneHeight);
    const slack = 3 / box.width;
    let best = null;
    for (const call of this.calls.list) {
      if (call.lane !== lane) continue;
      const from = this.place(this.calls.from(call)) - slack;
      const to = this.place(call.row[END] ?? this.now) + slack;
      if (x >= from && x <= to && (!best || call.parts.length > best.parts.length)) best = call;
    }
    return best;
  }

  paint() {
    if (this.planned) return;
    this.planned = requestAnimationFrame(() => {
      this.planned = 0;
      this.#paint();
    });
  }

  #paint() {
    const { canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext("2d");
    const style = getComputedStyle(canvas);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const lanes = Math.max(1, this.calls.lanes);
    this.laneHeight = Math.min(14, height / lanes);
    const thick = Math.max(1, this.laneHeight - (this.laneHeight > 4 ? 2 : 0.5));
    pen.fillStyle = colour("line");
    for (const part of [0.25, 0.5, 0.75]) pen.fillRect(Math.round(part * width), 0, 1, height);
    const colours = {
      succeeded: colour("ok"), failed: colour("bad"), unknown: colour("warn"), running: colour("accent"),
      not_started: colour("quiet"), waiting: colour("warn"),
    };
    for (const call of this.calls.list) {
      const row = call.row;
      const y = call.lane * this.laneHeight;
      const left = this.place(row[START]) * width;
      const right = this.place(row[END] ?? this.now) * width;
      pen.globalAlpha = this.lit !== null && call.line !== this.lit ? 0.3 : 1;
      if (call.wait) {
        pen.fillStyle = colour("wait");
        const from = this.place(call.wait[0]) * width;
        pen.fillRect(from, y, Math.max(2, this.place(call.wait[1] ?? this.now) * width - from), thick);
      }
      pen.fillStyle = cached(row) ? colour("quiet") : colours[row[STATUS]] ?? colour("ok");
      pen.fillRect(left, y, Math.max(1.5, right - left - 0.5), thick);
      if (call === this.selected) {
        pen.strokeStyle = colour("text");
        pen.strokeRect(left - 1, y - 0.5, Math.max(3, right - left + 1), thick + 1);
      }
    }
    pen.globalAlpha = 1;
    if (this.mark !== null) {
      pen.fillStyle = colour("accent");
      pen.fillRect(Math.min(width - 2, this.place(this.mark) * width), 0, 2, height);
    }
  }
}
