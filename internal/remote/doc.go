// Package remote is the bridge's client of the Bellman service: MCP requests
// over Streamable HTTP, the room socket and the blob upload, all through one
// RoundTripper that attaches the bearer token to the service's own origin and
// nowhere else.
//
// Requests and results travel as raw JSON through mcp-go's transport. What
// that transport would hide is recorded beside it: a status that is not 2xx is
// an error here even when a body could be read as a result, and an error says
// whether the service may have acted. The package never opens a browser; when
// a call needs one it says so with ErrSignInNeeded.
package remote
