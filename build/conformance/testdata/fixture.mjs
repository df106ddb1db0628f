// The service that the suite's server scenarios describe, for tools and
// resources, on the official SDK: what reaches a host with nothing in between.
// Usage: node fixture.mjs NODE_MODULES. Prints its address.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';

const require = createRequire(process.argv[2] + '/fixture.js');
const { Server } = require('@modelcontextprotocol/sdk/server/index.js');
const { StreamableHTTPServerTransport } = require('@modelcontextprotocol/sdk/server/streamableHttp.js');
const types = require('@modelcontextprotocol/sdk/types.js');

const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
const silence = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=';
const text = (t) => ({ type: 'text', text: t });
const embedded = (uri, mimeType, body) => ({ type: 'resource', resource: { uri, mimeType, text: body } });

const dialect = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } } },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
};

const tools = {
  test_simple_text: () => [text('This is a simple text response for testing.')],
  test_image_content: () => [{ type: 'image', data: pixel, mimeType: 'image/png' }],
  test_audio_content: () => [{ type: 'audio', data: silence, mimeType: 'audio/wav' }],
  test_embedded_resource: () => [embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')],
  test_multiple_content_types: () => [
    text('Multiple content types test:'),
    { type: 'image', data: pixel, mimeType: 'image/png' },
    embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
  ],
  test_error_handling: () => { throw new Error('This tool intentionally returns an error for testing'); },
  test_tool_with_progress: async ({ _meta }, extra) => {
    for (const progress of [0, 50, 100]) {
      if (_meta?.progressToken !== undefined) {
        await extra.sendNotification({ method: 'notifications/progress', params: { progressToken: _meta.progressToken, progress, total: 100 } });
      }
      await pause(50);
    }
    return [text('done')];
  },
  json_schema_2020_12_tool: () => [text('ok')],
};

const resources = {
  'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
  'test://static-binary': { mimeType: 'image/png', blob: pixel },
};

function read(uri) {
  if (resources[uri]) return { uri, ...resources[uri] };
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  if (id === undefined) throw new types.McpError(-32002, `Resource ${uri} not found`, { uri });
  return { uri, mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
}

function service() {
  const s = new Server({ name: 'fixture', version: '1.0.0' }, { capabilities: { tools: {}, resources: {} } });
  s.setRequestHandler(types.ListToolsRequestSchema, () => ({
    tools: Object.keys(tools).map((name) => ({
      name, description: `Tool ${name}`, inputSchema: name === 'json_schema_2020_12_tool' ? dialect : { type: 'object', properties: {} },
    })),
  }));
  s.setRequestHandler(types.CallToolRequestSchema, async ({ params }, extra) => {
    if (!tools[params.name]) throw new types.McpError(-32602, `Unknown tool: ${params.name}`);
    try {
      return { content: await tools[params.name](params, extra) };
    } catch (err) {
      return { isError: true, content: [text(err.message)] };
    }
  });
  s.setRequestHandler(types.ListResourcesRequestSchema, () => ({
    resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri, mimeType, description: 'A resource' })),
  }));
  s.setRequestHandler(types.ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: 'application/json' }],
  }));
  s.setRequestHandler(types.ReadResourceRequestSchema, ({ params }) => ({ contents: [read(params.uri)] }));
  return s;
}

const sessions = new Map();
const server = createServer(async (request, response) => {
  let transport = sessions.get(request.headers['mcp-session-id']);
  if (!transport && request.headers['mcp-session-id']) {
    response.writeHead(404).end();
    return;
  }
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => sessions.set(id, transport),
      onsessionclosed: (id) => sessions.delete(id),
    });
    await service().connect(transport);
  }
  await transport.handleRequest(request, response);
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
