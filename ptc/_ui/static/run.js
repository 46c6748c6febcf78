// One run: its script beside the timeline of its calls, and everything that it produced.

import { ATTEMPT, cached, Calls, EFFECT, END, LINE, PATH, START, STATUS, TOOL } from "./calls.js";
import { download, get, post, stream } from "./api.js";
import { announce, bytes, count, duration, fill, h, link, moment, money, statusMark, time, valueBlock, visible } from "./dom.js";
import { decisionForm, noteBlock } from "./decide.js";
import { Source } from "./source.js";
import { tabSet } from "./tabs.js";
import { Timeline } from "./timeline.js";

const UNFINISHED = new Set(["running", "queued"]);

export function runView(main, app, runId) {
  document.title = `${runId} · ptc`;
  main.className = "page-run";
  const calls = new Calls();
  const events = [];
  let head = null;
  let source = null;
  let skipped = 0;
  let ticking = 0;
  const light = (call) => {
    source?.light(call?.line ?? null, Boolean(call));
    timeline.light(null);
  };
  const timeline = new Timeline(calls, { light, select: showCall });
  const title = h("div", { class: "run-head" });
  const notes = h("div", { class: "run-notes" });
  const left = h("div", { class: "pane" });
  const details = h("div", { class: "details unused", role: "region", "aria-label": "Call" },
    h("p", { class: "quiet" }, "Select a call to see its arguments and its result."));
  const tabs = tabSet("Details of the run", ["Output", "Result", "Inputs", "Limits", "Time travel"]);
  const travel = travelPanel();
  fill(tabs.panels["Time travel"], travel.node);
  const grid = h("div", { class: "run-grid" },
    left, h("div", { class: "pane" }, h("h2", {}, "Calls"), timeline.node, details));
  fill(main, title);
  title.append(h("p", { class: "quiet" }, "Loading…"));

  const stop = stream(`/api/runs/${runId}/live`, {
    run: update,
    restart() {
      // The stream starts with the whole run again.
      events.length = 0;
    },
    failed(data) {
      fill(title, h("h1", {}, runId), h("p", { class: "problem" }, data.error));
    },
  }, (state) => {
    if (state === "over") tick(false);
  });

  function update(change) {
    const first = head === null;
    const before = head?.run.status;
    if (change.head) head = change.head;
    if (change.events) {
      events.push(...change.events);
      skipped += change.skipped;
    }
    if (!source) {
      // All at once: parts that come one after the other would shift those that are there.
      fill(main, title, notes, grid, tabs.node);
      source = new Source(head.source, {
        light: (line) => {
          source.light(line, false);
          timeline.light(line && calls.byLine.has(line) ? line : null);
        },
        select: (line) => {
          const call = calls.byLine.get(line)?.[0];
          if (call) timeline.activate(call.index, true);
        },
      });
      fill(left, h("h2", {}, "Script"), head.source_note ? h("p", { class: "quiet pad" }, head.source_note) : null, source.node);
    }
    calls.update(change.calls ?? [], head);
    source.counts(calls.byLine);
    timeline.update(head, Date.now());
    if (change.head) showHead();
    if (change.events || change.head || first) showOutput();
    if (before && before !== head.run.status) announce(`Run ${head.run.status.replace("_", " ")}`);
    if (change.head) travel.update();
    tick(UNFINISHED.has(head.run.status));
    if (first && head.result?.error?.line) source.mark(head.result.error.line, "wrong");
  }

  // Bars of calls that run grow between two messages of the server.
  function tick(runs) {
    clearInterval(ticking);
    ticking = 0;
    if (runs) ticking = setInterval(() => timeline.update(head, Date.now()), 500);
  }

  function showHead() {
    const { run, result } = head;
    const took = result?.usage.duration_ms ?? (run.end ? run.end - run.start : null);
    document.title = `${visible(run.file)} ${run.status.replace("_", " ")} · ptc`;
    fill(title,
      h("div", { class: "titles" }, h("h1", {}, visible(run.file) || "script"), statusMark(run.status),
        head.partials && UNFINISHED.has(run.status) ? h("span", { class: "quiet" }, "live") : null),
      h("dl", { class: "facts" },
        fact("Run", h("span", { class: "mono" }, run.id)),
        fact("Started", moment(run.start)),
        took === null ? null : fact("Duration", duration(took)),
        fact("Calls", count(calls.list.length)),
        run.revision > 1 ? fact("Revision", [run.revision, " ", run.id.includes(".") ? null : link(`/runs/${run.id}.${run.revision - 1}`, "before")]) : null,
        run.attempts > 1 ? fact("Starts", run.attempts) : null,
        run.tenant ? fact("Tenant", visible(run.tenant)) : null,
        head.tokens ? fact("Tokens", `${count(head.tokens.input_tokens)} in, ${count(head.tokens.output_tokens)} out`) : null,
        head.tokens && head.tokens.cost !== null ? fact("Cost", money(head.tokens.cost)) : null,
        fact("", link(`/compare?a=${run.id}`, "Compare"))));
    showNotes();
    fill(tabs.panels.Result, resultPanel());
    fill(tabs.panels.Inputs, valueBlock(head.inputs, "Inputs"));
    fill(tabs.panels.Limits, gauges());
  }

  function fact(name, ...value) {
    return h("div", {}, h("dt", {}, name), h("dd", {}, value));
  }

  const forms = new Map();

  function showNotes() {
    const { run, result } = head;
    const error = result && run.status !== "paused" ? result.error : null;
    const open = new Set(head.pending.map((item) => item.call + item.kind));
    for (const key of forms.keys()) if (!open.has(key)) forms.delete(key);
    for (const item of head.pending) {
      const key = item.call + item.kind;
      // A form that somebody fills in stays as it is.
      if (!forms.has(key)) forms.set(key, h("div", { class: "card" }, decisionForm(app, item, () => {})));
    }
    fill(notes,
      run.status === "violation" ? h("p", { class: "note bad" }, "Violation: the kernel stopped the script. A script that was written by mistake does not get here; treat its source as hostile.") : null,
      error ? errorBlock(error) : null,
      noteBlock(head.note, run.id),
      [...forms.values()],
      canResume() ? h("div", { class: "actions" }, h("button", { onclick: resume }, "Resume here")) : null,
      (result?.warnings ?? []).length ? h("details", { class: "warnings" },
        h("summary", {}, `${result.warnings.length} ${result.warnings.length === 1 ? "warning" : "warnings"}`),
        h("ul", {}, result.warnings.map((item) => h("li", {}, item.line ? `line ${item.line}: ` : "", visible(item.message))))) : null);
  }

  function canResume() {
    const status = head.run.status;
    return !app.me.read_only && !head.pending.length && !["waits", "here"].includes(head.note)
      && (["cancelled", "crashed", "timed_out", "limit_exceeded"].includes(status) || (status === "paused" && head.note !== "elsewhere"));
  }

  async function resume() {
    try {
      await post("/api/resume", { run: runId });
      location.reload();
    } catch (error) {
      announce(error.message);
      notes.append(h("p", { class: "problem" }, error.message));
    }
  }

  function errorBlock(error) {
    const name = error.type || error.code.replaceAll("_", " ");
    const message = error.message.startsWith(`${name}: `) ? error.message.slice(name.length + 2) : error.message;
    return h("section", { class: "error", "aria-label": "Error" },
      h("p", {}, h("strong", {}, visible(name)), error.line ? [" at ", h("button", { class: "plain", onclick: () => source.mark(error.line, "wrong") }, `line ${error.line}`)] : null,
        message && message !== name ? `: ${visible(message)}` : ""),
      error.syscall ? h("p", {}, "System call: ", h("code", {}, visible(error.syscall))) : null,
      error.excerpt ? h("pre", {}, visible(error.excerpt)) : null,
      error.hint ? h("p", { class: "hint" }, visible(error.hint)) : null,
      error.findings.length > 1 ? h("ul", {}, error.findings.slice(0, 20).map((item) => h("li", {}, `line ${item.line}: ${visible(item.message)}`))) : null,
      error.traceback ? h("details", {}, h("summary", {}, "Traceback"), h("pre", {}, visible(error.traceback))) : null);
  }

  function resultPanel() {
    const { result } = head;
    if (!result) return h("p", { class: "quiet" }, "No outcome is recorded yet.");
    return [
      valueBlock(result.value, "Value"),
      result.cut ? h("p", {}, `The value has ${bytes(result.cut.bytes)}. `, fileButton(result.cut.sha256, "value.json", result.cut.bytes)) : null,
      result.files.length ? h("ul", { class: "files" }, result.files.map((file) => h("li", {}, fileButton(file.id, file.name, file.size_bytes), ` ${visible(file.media_type)}`))) : null,
    ];
  }

  function fileButton(digest, name, size) {
    return h("button", { class: "plain", onclick: (event) => {
      download(`/api/runs/${runId}/files/${digest}`, name).catch((error) => {
        event.target.after(h("span", { class: "problem" }, ` ${error.message}`));
      });
    } }, `Download ${visible(name)} (${bytes(size)})`);
  }

  function gauges() {
    const { limits, result } = head;
    const usage = result?.usage ?? {};
    const rows = [
      ["Time", usage.duration_ms, limits.timeout_ms, duration],
      ["Calls", usage.tool_calls ?? calls.list.length, limits.max_tool_calls, count],
      ["Value", usage.output_bytes, limits.max_output_bytes, bytes],
      ["Printed", (usage.stdout_bytes ?? 0) + (usage.stderr_bytes ?? 0), limits.max_stdout_bytes, bytes],
      ["Emitted", usage.emit_bytes, limits.max_emit_bytes, bytes],
    ].filter(([, used]) => used !== undefined && used !== null);
    return h("div", { class: "gauges" }, rows.map(([name, used, most, format]) => {
      const part = Math.min(1, used / most);
      const fillNode = h("i", { class: part >= 0.9 ? "full" : "" });
      fillNode.style.width = `${part * 100}%`;
      return h("div", { class: "gauge" }, h("span", { class: "gauge-name" }, name),
        h("span", { class: "meter", role: "meter", "aria-label": name, "aria-valuemin": "0", "aria-valuemax": most, "aria-valuenow": Math.round(used), "aria-valuetext": `${format(used)} of ${format(most)}` }, fillNode),
        h("span", { class: "gauge-value" }, `${format(used)} of ${format(most)}`));
    }));
  }

  function showOutput() {
    const panel = tabs.panels.Output;
    const atEnd = panel.scrollTop + panel.clientHeight > panel.scrollHeight - 20;
    const shown = events.slice(-500);
    const hidden = events.length - shown.length + skipped;
    const partials = Object.entries(head.partials ?? {});
    fill(panel,
      events.length || partials.length ? null : h("p", { class: "quiet" }, "The script has printed and emitted nothing."),
      hidden ? h("p", { class: "quiet" }, `${count(hidden)} earlier rows are not shown; ptc show ${runId} --events lists all.`) : null,
      h("ol", { class: "output" }, shown.map((row) => h("li", { class: `k-${row.kind}` },
        h("span", { class: "at" }, time(row.at)), h("span", { class: "kind" }, row.kind), h("pre", {}, visible(row.text.replace(/\n$/, "")))))),
      partials.map(([path, value]) => h("div", { class: "partial" }, h("span", { class: "quiet" }, `call ${path}, so far`), valueBlock(growing(value), `Object of call ${path}, so far`))));
    if (atEnd) panel.scrollTop = panel.scrollHeight;
  }

  // The report of generate_object has the object beside its state.
  function growing(value) {
    try {
      const found = value.whole ? JSON.parse(value.text) : null;
      return found && typeof found === "object" && "object" in found ? { ...value, text: JSON.stringify(found.object ?? null) } : value;
    } catch {
      return value;
    }
  }

  let asked = 0;
  async function showCall(call) {
    const mine = ++asked;
    const row = call.row;
    details.classList.remove("unused");
    if (call.pending) {
      fill(details, h("p", { class: "quiet" }, "The call awaits a decision; the form is above."));
      return;
    }
    let data;
    try {
      data = await get(`/api/runs/${runId}/calls/${encodeURIComponent(row[PATH])}`);
    } catch (error) {
      if (mine === asked) fill(details, h("p", { class: "problem" }, error.message));
      return;
    }
    if (mine !== asked) return;
    const facts = [
      ["Status", statusMark(row[STATUS])],
      ["Time", row[END] === null ? "running" : duration(row[END] - row[START])],
      ["Started", `${time(row[START])}, after ${duration(Math.max(0, row[START] - timeline.span[0]))}`],
      call.line ? ["Line", call.line] : null,
      cached(row) ? ["Result", "from the cache"] : row[ATTEMPT] > 1 ? ["Attempts", row[ATTEMPT]] : null,
      row[EFFECT] ? ["Side effect", "yes"] : null,
      call.wait ? ["Waited", duration((call.wait[1] ?? Date.now()) - call.wait[0])] : null,
      data.usage ? ["Tokens", `${count(data.usage.input_tokens ?? 0)} in, ${count(data.usage.output_tokens ?? 0)} out`] : null,
      typeof data.usage?.cost_usd === "number" ? ["Cost", money(data.usage.cost_usd)] : null,
    ].filter(Boolean);
    fill(details,
      h("h3", {}, visible(row[TOOL]), h("span", { class: "quiet" }, ` call ${row[PATH]}`)),
      h("dl", { class: "facts" }, facts.map(([name, value]) => fact(name, value))),
      data.decisions.map((item) => h("p", {}, `${item.action} by ${visible(item.by)} at ${moment(item.at)}`, item.comment ? `: ${visible(item.comment)}` : "")),
      h("h4", {}, "Arguments"), valueBlock(data.arguments, "Arguments"),
      data.requested ? [h("h4", {}, "Arguments that the script requested"), valueBlock(data.requested, "Arguments that the script requested")] : null,
      data.error ? [h("h4", {}, "Error"), h("p", { class: "problem" }, visible(`${data.error.code}: ${data.error.message}`)),
        data.error.details.text === "null" ? null : valueBlock(data.error.details, "Error details")] : null,
      data.value ? [h("h4", {}, "Result"), valueBlock(data.value, "Result")] : null,
      data.files.length ? h("ul", { class: "files" }, data.files.map((file) => h("li", {}, fileButton(file.id, file.name, file.size_bytes)))) : null);
  }

  function travelPanel() {
    const range = h("input", { type: "range", id: "travel", min: "0", max: "0", value: "0", "aria-describedby": "travel-at" });
    const at = h("output", { id: "travel-at", for: "travel" });
    const out = h("div", { class: "frames", "aria-live": "polite" }, h("p", { class: "quiet" }, "Move the slider to see the script's variables when it received the result of a call. The script is replayed with the recorded results; no tool is called."));
    let timer = 0;
    let turn = 0;
    let stops = [];
    range.addEventListener("input", () => {
      const path = stops[Number(range.value) - 1];
      at.textContent = path ? `call ${path}` : "start";
      const call = path ? calls.byPath.get(path) : null;
      timeline.mark = call?.row[END] ?? null;
      timeline.paint();
      clearTimeout(timer);
      if (path) timer = setTimeout(() => replay(path), 200);
    });
    async function replay(path) {
      const mine = ++turn;
      at.textContent = `call ${path}: replaying…`;
      try {
        const data = await post("/api/replay", { run: runId, call: path });
        if (mine !== turn) return;
        at.textContent = `call ${path}`;
        source.mark(data.frames.at(-1)?.line ?? null, "here");
        fill(out, data.error ? h("p", { class: "problem" }, visible(data.error)) : null,
          data.frames.map((frame) => [h("h3", {}, visible(frame.function), h("span", { class: "quiet" }, ` line ${frame.line}`)),
            h("table", {}, h("tbody", {}, Object.entries(frame.names).map(([name, text]) =>
              h("tr", {}, h("th", { scope: "row", class: "mono" }, visible(name)), h("td", { class: "mono" }, visible(text))))))]));
      } catch (error) {
        if (mine === turn) {
          at.textContent = `call ${path}`;
          fill(out, h("p", { class: "problem" }, error.message));
        }
      }
    }
    return {
      node: h("div", { class: "travel" }, h("div", { class: "slide" }, h("label", { for: "travel" }, "Position"), range, at), out),
      update() {
        stops = head.deliveries;
        range.max = String(stops.length);
        range.disabled = !stops.length || Boolean(head.source_note);
        if (!at.textContent) at.textContent = "start";
      },
    };
  }

  return () => {
    stop();
    clearInterval(ticking);
    timeline.close();
  };
}
