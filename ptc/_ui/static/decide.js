// The form with which a person decides about a call.

import { ApiError, post } from "./api.js";
import { announce, duration, fill, h, link, moment, visible } from "./dom.js";

const NOTES = {
  waits: "The decision is recorded. Waiting for the process that holds the run, or a worker of the queue, to continue it…",
  elsewhere: "Another process continues the run: the one that waited for the decision, or a worker of the queue.",
  here: "This server continues the run.",
  pending: "Further calls of the run await a decision.",
  nobody: "No process has continued the run yet. A worker of the queue that has its tools will, or run:",
};

export function noteBlock(note, runId) {
  if (!note) return null;
  const known = NOTES[note];
  return h("div", { class: `note ${known ? "" : "bad"}` },
    h("p", {}, known ?? `The run was not continued here. ${visible(note)}`),
    note === "nobody" ? h("code", {}, `ptc resume ${runId}`) : null);
}

function schemaRows(schema) {
  const required = new Set(schema?.required ?? []);
  return Object.entries(schema?.properties ?? {}).map(([name, part]) => h("li", {},
    h("code", {}, visible(name)), ` ${visible(typeName(part))}${required.has(name) ? ", required" : ""}`,
    part.description ? h("span", { class: "quiet" }, ` ${visible(part.description)}`) : null));
}

function typeName(part) {
  if (Array.isArray(part.enum)) return part.enum.map((value) => JSON.stringify(value)).join(" | ");
  return part.type ?? (part.anyOf ? part.anyOf.map(typeName).join(" | ") : "value");
}

export function decisionForm(app, call, onDone, options = {}) {
  const id = `d-${call.run_id}-${call.call}`.replaceAll(".", "-");
  const original = JSON.stringify(call.arguments, null, 2);
  const editor = h("textarea", {
    id: `${id}-args`, class: "mono", rows: Math.min(16, original.split("\n").length + 1), spellcheck: "false",
    "aria-describedby": `${id}-problem`,
  });
  editor.value = original;
  const comment = h("input", { id: `${id}-comment`, autocomplete: "off", maxlength: "4000" });
  const problem = h("p", { class: "problem", id: `${id}-problem`, "aria-live": "polite" });
  const approve = h("button", { class: "primary", onclick: () => decide("approve") }, "Approve");
  const reject = h("button", { onclick: () => decide("reject") }, "Reject");
  const outcomes = [["done", "It took effect"], ["failed", "It had no effect"], ["again", "Make it again"]].map(
    ([action, label]) => h("button", { onclick: () => decide(action) }, label));
  const isApproval = call.kind === "approval";
  const expired = call.expires_ms !== null && Date.now() > call.expires_ms;
  let edited = null;
  let timer = 0;
  let turn = 0;

  editor.addEventListener("input", () => {
    clearTimeout(timer);
    problem.textContent = "";
    approve.disabled = editor.value !== original;
    approve.textContent = editor.value === original ? "Approve" : "Approve with edits";
    timer = setTimeout(check, 250);
  });

  async function check() {
    const mine = ++turn;
    edited = null;
    if (editor.value === original) return;
    let value;
    try {
      value = JSON.parse(editor.value);
    } catch (error) {
      problem.textContent = `Not JSON: ${error.message}`;
      return;
    }
    try {
      const found = await post("/api/validate", { run: call.run_id, call: call.call, arguments: value });
      if (mine !== turn) return;
      problem.textContent = found.problem ?? "";
      approve.disabled = Boolean(found.problem);
      edited = found.problem ? null : value;
    } catch (error) {
      problem.textContent = error.message;
    }
  }

  async function decide(action) {
    const buttons = [approve, reject, ...outcomes];
    const before = buttons.map((button) => button.disabled);
    for (const button of buttons) button.disabled = true;
    try {
      await post("/api/decide", {
        run: call.run_id, call: call.call, action, comment: comment.value,
        ...(action === "approve" && edited ? { arguments: edited } : {}),
      });
      announce(`Recorded: ${action} by ${app.me.identity}`);
      onDone(action);
    } catch (error) {
      problem.textContent = error instanceof ApiError ? error.message : "The server did not answer.";
      buttons.forEach((button, index) => { button.disabled = before[index]; });
    }
  }

  const wait = h("span", { class: "quiet" }, `requested ${duration(Math.max(0, Date.now() - call.requested_ms))} ago`,
    call.expires_ms ? `, ${expired ? "expired" : "expires"} ${moment(call.expires_ms)}` : "");
  const schema = schemaRows(call.schema);
  const readOnly = app.me.read_only;
  if (readOnly || !isApproval) editor.readOnly = true;
  return h("section", { class: "decision", "aria-labelledby": `${id}-title` },
    h("div", {}, h("h2", { id: `${id}-title` }, visible(call.tool), h("span", { class: "quiet" }, ` call ${call.call}`)),
    options.showRun ? h("p", {}, link(`/runs/${call.run_id}`, visible(call.file)), " ", wait) : h("p", {}, wait),
    call.prompt ? h("p", { class: "prompt" }, visible(call.prompt)) : null,
    isApproval ? null : h("p", { class: "prompt" }, "The call was interrupted. Check whether it took effect, and record that."),
    call.code ? h("pre", { class: "from" }, `${visible(call.file)}:${call.line}  ${visible(call.code)}`) : null,
    schema.length ? h("details", {}, h("summary", {}, "Parameters"), h("ul", { class: "schema" }, schema)) : null),
    h("div", {},
    h("label", { for: editor.id }, isApproval && !readOnly ? "Arguments (JSON; edit to change them)" : "Arguments"),
    editor, problem,
    readOnly ? h("p", { class: "quiet" }, "This page is read-only.") : [
      h("label", { for: comment.id }, "Comment"), comment,
      h("div", { class: "actions" },
        isApproval ? [expired ? null : approve, reject] : outcomes,
        h("span", { class: "quiet" }, `recorded as ${visible(app.me.identity)}`)),
    ]));
}

export function showDecided(node, text) {
  fill(node, h("p", { class: "note" }, text));
}
