// The official TypeScript SDK, version 2. Its argument is how to negotiate: `legacy` or `auto`.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { obey } from "./orders.mjs";

const mode = process.argv[2];

const transportTo = ({ transport, url, token, command, env }) => {
  if (transport === "stdio") {
    return new StdioClientTransport({ command: command[0], args: command.slice(1), env });
  }
  const Transport = { http: StreamableHTTPClientTransport, sse: SSEClientTransport }[transport];
  const headers = { Authorization: `Bearer ${token}` };
  return new Transport(new URL(url), { requestInit: { headers } });
};

obey(async (target, hear) => {
  const client = new Client({ name: "typescript-v2", version: "1" }, { versionNegotiation: { mode } });
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => hear(params.uri));
  await client.connect(transportTo(target));
  const subscribe = (uri) =>
    client.getProtocolEra() === "modern"
      ? client.listen({ resourceSubscriptions: [uri] })
      : client.subscribeResource({ uri });
  return { client, version: client.getNegotiatedProtocolVersion(), subscribe };
});
