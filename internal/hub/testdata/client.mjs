// One conversation through the TypeScript SDK's own client. Arguments: the
// hub's origin, and a folder whose node_modules has the SDK.
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [origin, folder] = process.argv.slice(2);
const require = createRequire(join(folder, 'package.json'));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');

async function connect(key) {
  const client = new Client({ name: 'sdk', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(origin + '/mcp'), {
    requestInit: { headers: { Authorization: 'Bearer ' + key } },
  }));
  return client;
}

const call = async (client, name, args) => (await client.callTool({ name, arguments: args })).structuredContent;
const a = await connect('qk_dev_jesse');
const b = await connect('qk_dev_peer');
const { tools } = await a.listTools();
const brief = { goal: 'g', state: 's', agent: { provider: 'p', model: 'm', client: 'sdk' } };
const started = await call(a, 'bellman_start', { manifest: { room: 'r', preset: 'pair' }, brief });
const previewed = await call(b, 'bellman_connect', { join_code: started.join_code });
const joined = await call(b, 'bellman_confirm', { connect_token: previewed.connect_token, brief });
const poll = call(b, 'bellman_sync', {
  session_id: started.session_id, member_id: joined.member_id, since_cursor: joined.cursor, wait_seconds: 20,
});
await call(a, 'bellman_send', {
  session_id: started.session_id, member_id: started.member_id, type: 'message', payload: { text: 'hi' },
});
const got = await poll;
const misfit = await a.callTool({ name: 'bellman_sync', arguments: {} });
await a.ping();
console.log(JSON.stringify({
  server: a.getServerVersion().name, tools: tools.map((t) => t.name), text: got.events[0].data.payload.text,
  resources: (await a.listResources()).resources.length, misfit: misfit.isError && misfit.content[0].text,
}));
await a.close();
await b.close();
