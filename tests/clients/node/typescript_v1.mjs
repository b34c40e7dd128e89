// The official TypeScript SDK, version 1.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

import { obey } from "./orders.mjs";

const transportTo = ({ transport, url, token, command, env }) => {
  if (transport === "stdio") {
    return new StdioClientTransport({ command: command[0], args: command.slice(1), env });
  }
  const Transport = { http: StreamableHTTPClientTransport, sse: SSEClientTransport }[transport];
  const headers = { Authorization: `Bearer ${token}` };
  return new Transport(new URL(url), { requestInit: { headers } });
};

obey(async (target, hear) => {
  const transport = transportTo(target);
  const note = transport.setProtocolVersion?.bind(transport);
  let version;
  transport.setProtocolVersion = (agreed) => {
    version = agreed;
    note?.(agreed);
  };
  const client = new Client({ name: "typescript-v1", version: "1" });
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => hear(params.uri));
  await client.connect(transport);
  return { client, version, subscribe: (uri) => client.subscribeResource({ uri }) };
});
