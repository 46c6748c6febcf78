// Run a script: an editor with the tools' signatures, and a check while it is typed.

import { get, post } from "./api.js";
import { fill, h, visible } from "./dom.js";

const STORED = "ptc-script";
const FIRST = 'async def run(ctx, inputs):\n    """Describe what the script does."""\n    return inputs\n';

export function scriptView(main, app) {
  document.title = "Run a script · ptc";
  main.className = "page-script";
  const saved = JSON.parse(sessionStorage.getItem(STORED) ?? "{}");
  const editor = h("textarea", { id: "s-source", class: "mono editor", rows: "20", spellcheck: "false", autocapitalize: "off", "aria-describedby": "s-findings" });
  editor.value = saved.source ?? FIRST;
  const inputs = h("textarea", { id: "s-inputs", class: "mono", rows: "3", spellcheck: "false" });
  inputs.value = saved.inputs ?? "{}";
  const name = h("input", { id: "s-name", value: saved.name ?? "script.py", autocomplete: "off", maxlength: "200" });
  const findings = h("ul", { class: "findings", id: "s-findings", "aria-live": "polite" });
  const problem = h("p", { class: "problem", role: "alert" });
  const tools = h("div", { class: "tools" }, h("p", { class: "quiet" }, "Loading the tools…"));
  const start = h("button", { class: "primary", onclick: run }, "Run");
  fill(main, h("h1", {}, "Run a script"),
    h("div", { class: "split" },
      h("div", {},
        h("label", { for: "s-source" }, "Script"), editor, findings,
        h("label", { for: "s-inputs" }, "Inputs (JSON object)"), inputs,
        h("label", { for: "s-name" }, "Name"), name, problem,
        h("div", { class: "actions" }, start, h("span", { class: "quiet" }, "Ctrl+Enter"))),
      h("aside", { "aria-label": "Tools" }, h("h2", {}, "Tools"), tools)));
  const boxes = new Map();
  let timer = 0;
  let turn = 0;

  get("/api/tools").then((data) => {
    fill(tools, data.tools.map((tool, index) => {
      const box = h("input", { type: "checkbox", id: `tool-${index}`, checked: saved.allow ? saved.allow.includes(tool.name) : !tool.side_effect, onchange: changed });
      boxes.set(tool.name, box);
      return h("div", { class: "tool-item" }, box,
        h("label", { for: box.id }, h("code", {}, visible(signature(tool))), tool.side_effect ? h("span", { class: "tag effect" }, "effect") : null,
          h("span", { class: "quiet" }, visible(tool.description.split("\n")[0]))));
    }));
    check();
  }, (error) => fill(tools, h("p", { class: "problem" }, error.message)));

  function allowed() {
    return [...boxes].filter(([, box]) => box.checked).map(([tool]) => tool);
  }

  function changed() {
    sessionStorage.setItem(STORED, JSON.stringify({ source: editor.value, inputs: inputs.value, name: name.value, allow: allowed() }));
    clearTimeout(timer);
    timer = setTimeout(check, 400);
  }
  for (const field of [editor, inputs, name]) field.addEventListener("input", changed);
  editor.addEventListener("keydown", (event) => {
    // Escape first, so that the Tab key can also leave the editor.
    if (event.key === "Tab" && !event.shiftKey && !editor.dataset.escaped) {
      event.preventDefault();
      editor.setRangeText("    ", editor.selectionStart, editor.selectionEnd, "end");
      changed();
    }
    if (event.key === "Escape") editor.dataset.escaped = "yes";
    else delete editor.dataset.escaped;
  });
  main.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  });

  async function check() {
    const mine = ++turn;
    let found;
    try {
      found = await post("/api/check", { source: editor.value, allow: allowed() });
    } catch (error) {
      if (mine === turn) fill(findings, h("li", { class: "bad" }, error.message));
      return;
    }
    if (mine !== turn) return;
    fill(findings, found.findings.map((item) => h("li", { class: item.advisory ? "warn" : "bad" },
      h("button", { class: "plain", onclick: () => jump(item) }, `line ${item.line}`), ` ${visible(item.message)}`,
      item.excerpt ? h("pre", {}, visible(item.excerpt)) : null,
      item.hint ? h("p", { class: "quiet" }, visible(item.hint)) : null)));
    if (!found.findings.length) fill(findings, h("li", { class: "good" }, "The check found no problem."));
  }

  function jump(item) {
    const before = editor.value.split("\n").slice(0, item.line - 1).join("\n");
    const at = before.length + (item.line > 1 ? 1 : 0) + Math.max(0, item.column - 1);
    editor.focus();
    editor.setSelectionRange(at, at);
  }

  async function run() {
    problem.textContent = "";
    let value;
    try {
      value = JSON.parse(inputs.value || "{}");
    } catch (error) {
      problem.textContent = `The inputs are not JSON: ${error.message}`;
      return;
    }
    start.disabled = true;
    try {
      const found = await post("/api/start", { source: editor.value, filename: name.value, inputs: value, allow: allowed() });
      app.go(`/runs/${found.run}`);
    } catch (error) {
      problem.textContent = error.message;
      start.disabled = false;
    }
  }
  return () => {
    turn += 1;
    clearTimeout(timer);
  };
}

function signature(tool) {
  const required = new Set(tool.schema?.required ?? []);
  const parts = Object.entries(tool.schema?.properties ?? {}).map(([name, part]) =>
    `${name}: ${part.type ?? "any"}${required.has(name) ? "" : " = …"}`);
  return `${tool.name}(${parts.join(", ")})`;
}
