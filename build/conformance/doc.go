// Package conformance holds tests alone: in them the public MCP conformance
// suite judges the hub as a server and the bridge as what stands between a host
// and a service.
package conformance
