// Package stdio is the host's side of the bridge: JSON-RPC messages, one a
// line, read from the host and written back to it.
//
// It exists because bridging needs three things that a general MCP server loop
// does not give: any number of calls waiting at once without holding up the
// next, bytes that pass through as they came, and a receipt for each reply that
// says whether it really left. Only id, method, the tool's name and the
// progress token are decoded; params and results stay raw, and the raw id goes
// back as it came.
package stdio
