// Two agents behind two bridges meet in a room. The host of each is the
// official SDK's own client, which starts the bridge, checks every answer
// against the protocol's schemas and structured content against the tool's.
// Arguments: a NODE_MODULES folder, the bridge, the service's address, a
// folder for state. Prints what the test compares.
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [packages, bridge, url, dir] = process.argv.slice(2);
const require = createRequire(join(packages, 'room.js'));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');

async function host(name) {
  const client = new Client({ name, version: '1' });
  await client.connect(new StdioClientTransport({
    command: bridge,
    args: ['--url', url, '--key', `qk_dev_${name}`, '--state-dir', join(dir, name)],
    env: { ...process.env, HOME: dir },
    stderr: 'ignore',
  }));
  const { tools } = await client.listTools(); // from here on it knows the schemas
  const call = async (tool, args = {}, options = {}) => {
    const result = await client.callTool({ name: tool, arguments: args }, undefined, options);
    if (result.isError) throw new Error(`${tool}: ${result.content[0].text}`);
    return result.structuredContent;
  };
  return { client, tools, call };
}

const a = await host('jesse');
const b = await host('peer');
const brief = { goal: 'meet', state: 'under way', agent: { provider: 'p', model: 'm', client: 'sdk' } };
const started = await a.call('bellman_start', { manifest: { room: 'workbench', preset: 'pair' }, brief });
const preview = await b.call('bellman_connect', { join_code: started.join_code });
const joined = await b.call('bellman_confirm', { connect_token: preview.connect_token, brief });
const room = { session_id: started.session_id };
const say = (text) => a.call('bellman_send', { ...room, member_id: started.member_id, type: 'message', payload: { text } });
const texts = (events) => events.map((e) => e.payload?.text ?? e.data?.payload?.text).filter(Boolean);

// A wait that the host gives up takes nothing with it.
const stop = new AbortController();
const given = b.call('bellman_wait', { wait_seconds: 25 }, { signal: stop.signal }).catch((err) => `${err}`);
setTimeout(() => stop.abort('the person has stopped it'), 300);
const aborted = await given;
await say('first');
const woken = await b.call('bellman_wait', { wait_seconds: 25 });

// What a sync has handed over no wait hands over again.
await say('second');
const synced = await b.call('bellman_sync', { ...room, member_id: joined.member_id, since_cursor: woken.next[0].since_cursor, wait_seconds: 20 });
const after = await b.call('bellman_wait', { wait_seconds: 0 });

const refusal = await b.client.callTool({ name: 'bellman_sync', arguments: {} });
const { prompts } = await b.client.listPrompts();
const shown = await b.client.getPrompt({ name: prompts[0].name, arguments: Object.fromEntries((prompts[0].arguments ?? []).map((p) => [p.name, 'ABCD-EFGH'])) });
await b.client.ping();
console.log(JSON.stringify({
  Tools: b.tools.map((t) => t.name), Aborted: aborted, Woken: texts(woken.events), Synced: texts(synced.events),
  After: texts(after.events), Refused: refusal.isError === true, Prompts: prompts.length, Shown: shown.messages.length,
}));
await a.client.close();
await b.client.close();
