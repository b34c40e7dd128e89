// Does what the lines on stdin ask of a client of MCP, and says on stdout what came of it.
import { createInterface } from "node:readline";

const TEMPLATE = { type: "ref/resource", uri: "memory://{namespace}/{key}" };

// The transport to what `connect` was told, of the SDK whose transports these are.
export const transportTo = (transports, { transport, url, token, command, env }) => {
  const Transport = transports[transport];
  if (transport === "stdio") {
    return new Transport({ command: command[0], args: command.slice(1), env });
  }
  const headers = { Authorization: `Bearer ${token}` };
  return new Transport(new URL(url), { requestInit: { headers } });
};

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

// `connected(target, hear)` returns a client, the version that was agreed on, and how to subscribe.
export const obey = (connected) => {
  let connection;

  const orders = {
    connect: async (target) => {
      connection = undefined;
      connection = await connected(target, (uri) => say({ heard: uri }));
      return connection.version;
    },
    tools: async () => (await connection.client.listTools()).tools.map(({ name }) => name),
    call: async ({ tool, ...given }) => {
      const answer = await connection.client.callTool({ name: tool, arguments: given.arguments });
      if (answer.isError) throw new Error(answer.content[0].text);
      return answer.structuredContent;
    },
    read: async ({ uri }) => (await connection.client.readResource({ uri })).contents[0].text,
    complete: async ({ value }) => {
      const argument = { name: "key", value };
      const answer = await connection.client.complete({ ref: TEMPLATE, argument });
      return answer.completion.values;
    },
    subscribe: async ({ uri }) => void (await connection.subscribe(uri)),
  };

  const answer = async (line) => {
    const { id, order, ...wanted } = JSON.parse(line);
    try {
      say({ id, result: (await orders[order](wanted)) ?? null });
    } catch (error) {
      say({ id, error: `${error.name}: ${error.message}` });
    }
  };

  createInterface({ input: process.stdin })
    .on("line", answer)
    .on("close", () => process.exit());
};
