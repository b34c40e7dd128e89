// The official TypeScript SDK, version 2. Its argument is how to negotiate: `legacy` or `auto`.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { obey, transportTo } from "./orders.mjs";

const TRANSPORTS = {
  http: StreamableHTTPClientTransport,
  sse: SSEClientTransport,
  stdio: StdioClientTransport,
};
const mode = process.argv[2];

obey(async (target, hear) => {
  const client = new Client({ name: "typescript-v2", version: "1" }, { versionNegotiation: { mode } });
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => hear(params.uri));
  await client.connect(transportTo(TRANSPORTS, target));
  const subscribe = (uri) =>
    client.getProtocolEra() === "modern"
      ? client.listen({ resourceSubscriptions: [uri] })
      : client.subscribeResource({ uri });
  return { client, version: client.getNegotiatedProtocolVersion(), subscribe };
});
