// Calls of a run: their order, their lanes, and the spans in which they waited for a decision.

export const PATH = 0, TOOL = 1, LINE = 2, STATUS = 3, START = 4, END = 5, ATTEMPT = 6,
  EFFECT = 7, ARGS = 8, ERROR = 9;

function compare(a, b) {
  const left = a.parts;
  const right = b.parts;
  for (let index = 0; index < left.length && index < right.length; index += 1) {
    if (left[index] !== right[index]) return left[index] - right[index];
  }
  return left.length - right.length;
}

export class Calls {
  constructor() {
    this.byPath = new Map();
    this.list = [];
    this.waits = [];
    this.lanes = 0;
    this.byLine = new Map();
  }

  clear() {
    this.byPath.clear();
    this.list = [];
  }

  update(rows, head) {
    let added = false;
    for (const row of rows) {
      const old = this.byPath.get(row[PATH]);
      if (old && !old.pending) {
        old.row = row;
        continue;
      }
      const call = { row, parts: row[PATH].split(".").map(Number), lane: 0, index: 0 };
      this.byPath.set(row[PATH], call);
      added = true;
    }
    for (const item of head?.pending ?? []) {
      // A call that awaits approval has not started, so it has no row yet.
      if (this.byPath.has(item.call)) continue;
      const row = [item.call, item.tool, item.line, "waiting", item.requested_ms, null, 0, true,
        JSON.stringify(item.arguments ?? null).slice(0, 120), ""];
      this.byPath.set(item.call, { row, pending: true, parts: item.call.split(".").map(Number), lane: 0, index: 0 });
      added = true;
    }
    if (added || this.list.length !== this.byPath.size) {
      this.list = [...this.byPath.values()].sort(compare);
      this.list.forEach((call, index) => { call.index = index; });
    }
    this.#note(head);
    this.#pack();
  }

  #note(head) {
    this.byLine.clear();
    for (const call of this.list) {
      call.wait = null;
      // A nested call belongs to the line of the call whose tool made it.
      call.line = call.row[LINE] ?? this.byPath.get(String(call.parts[0]))?.row[LINE] ?? null;
      if (call.line === null) continue;
      const found = this.byLine.get(call.line);
      if (found) found.push(call);
      else this.byLine.set(call.line, [call]);
    }
    if (!head) return;
    const decided = new Map(head.decisions.map((item) => [item.path, item.at]));
    for (const item of head.waits) {
      const call = this.byPath.get(item.path);
      if (call) call.wait = [item.start, decided.get(item.path) ?? null];
    }
  }

  // Puts calls that overlap into lanes below each other, each as high as possible.
  #pack() {
    const ends = [];
    const order = [...this.list].sort((a, b) => this.from(a) - this.from(b));
    for (const call of order) {
      const start = this.from(call);
      let lane = ends.findIndex((end) => end <= start);
      if (lane < 0) lane = ends.length < 40 ? ends.length : 39;
      call.lane = lane;
      ends[lane] = Math.max(ends[lane] ?? 0, call.row[END] ?? Infinity);
    }
    this.lanes = ends.length;
  }

  from(call) {
    return call.wait ? Math.min(call.wait[0], call.row[START]) : call.row[START];
  }

  span(head, now) {
    let first = Infinity;
    let last = 0;
    for (const call of this.list) {
      first = Math.min(first, this.from(call));
      last = Math.max(last, call.row[END] ?? (call.row[STATUS] === "waiting" ? call.row[START] : now));
    }
    if (!this.list.length) return [head?.run.start ?? 0, head?.run.end ?? now];
    return [first, Math.max(last, first + 1)];
  }
}

export function cached(row) {
  return row[ATTEMPT] === 0 && row[STATUS] === "succeeded";
}
