// An MCP client that a test controls: one JSON request a line in, one JSON answer a line out.
//
//     node client.cjs FOLDER PACKAGE TARGET
//
// FOLDER has `node_modules`, PACKAGE is "sdk" (1.x) or "client" (2.x), and TARGET is
// {"command", "args"} or {"url", "headers"}. A request is {"method", "params"}, as in the protocol.
// An answer is {"result"} or {"error": {"code", "message"}}.

const { createRequire } = require("node:module");
const { join } = require("node:path");
const { createInterface } = require("node:readline");

const [folder, name, json] = process.argv.slice(2);
const load = createRequire(join(folder, "package.json"));
const target = JSON.parse(json);

function parts() {
  const scope = "@modelcontextprotocol";
  if (name === "client") {
    return {
      ...load(`${scope}/client`),
      ...load(`${scope}/client/stdio`),
      options: { versionNegotiation: { mode: "auto" } },
    };
  }
  return {
    ...load(`${scope}/sdk/client/index.js`),
    ...load(`${scope}/sdk/client/stdio.js`),
    ...load(`${scope}/sdk/client/streamableHttp.js`),
    options: {},
  };
}

const METHODS = {
  "tools/call": "callTool",
  "tools/list": "listTools",
  "resources/read": "readResource",
};

async function main() {
  const { Client, StdioClientTransport, StreamableHTTPClientTransport, options } = parts();
  const client = new Client({ name: "measurement", version: "1" }, options);
  const transport = target.url
    ? new StreamableHTTPClientTransport(new URL(target.url), {
        requestInit: { headers: target.headers },
      })
    : new StdioClientTransport({ ...target, env: process.env });
  await client.connect(transport);
  for await (const line of createInterface({ input: process.stdin })) {
    const { method, params } = JSON.parse(line);
    let answer;
    try {
      answer = { result: await client[METHODS[method]](params) };
    } catch (error) {
      answer = { error: { code: error.code ?? null, message: String(error.message) } };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  await client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
