// The official TypeScript SDK, version 1.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

import { obey, transportTo } from "./orders.mjs";

const TRANSPORTS = {
  http: StreamableHTTPClientTransport,
  sse: SSEClientTransport,
  stdio: StdioClientTransport,
};

obey(async (target, hear) => {
  const transport = transportTo(TRANSPORTS, target);
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
