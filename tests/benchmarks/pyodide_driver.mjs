// Runs scripts in Pyodide: requests and answers are lines of JSON.
//   node pyodide_driver.mjs FOLDER    with the folder of the npm package `pyodide`
import { createInterface } from "node:readline";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const { loadPyodide } = await import(pathToFileURL(join(folder, "pyodide.mjs")));
const pyodide = await loadPyodide({ indexURL: folder });
const write = (row) => process.stdout.write(JSON.stringify(row) + "\n");
const waiting = new Map();
let calls = 0;

pyodide.globals.set("_call", (name, args) => {
  const id = ++calls;
  write({ call: id, tool: name, arguments: JSON.parse(args) });
  return new Promise((resolve) => waiting.set(id, resolve));
});
pyodide.runPython(`
import json
class _Tools:
    def __getattr__(self, name):
        async def call(**arguments):
            return json.loads(await _call(name, json.dumps(arguments)))
        return call
async def _main(source):
    names = {"__name__": "script"}
    exec(compile(source, "<script>", "exec"), names)
    value = names["run"](_Tools(), {})
    return json.dumps(await value if hasattr(value, "__await__") else value)
`);
const main = pyodide.globals.get("_main");
write({ ready: pyodide.version });

for await (const line of createInterface({ input: process.stdin })) {
  const row = JSON.parse(line);
  if ("answer" in row) {
    waiting.get(row.answer)(JSON.stringify(row.value));
    waiting.delete(row.answer);
  } else {
    main(row.source).then(
      (value) => write({ done: row.run, value: JSON.parse(value) }),
      (error) => write({ done: row.run, error: String(error) }),
    );
  }
}
