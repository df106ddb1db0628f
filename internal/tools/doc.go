// Package tools is what the host sees: the tool list, the calls, the prompts.
//
// The list is always answered from this machine and marked, so that an agent
// in a host that shows nothing but tool descriptions learns to call
// bellman_sync at the start of each turn. Calls of the service's tools pass
// through as raw JSON; what their results show of joined rooms is reported to
// the queue. bellman_wait, bellman_whoami and bellman_upload are answered here.
// Every call is answered in under 50 s, with a result or with a reason that an
// agent can act on.
package tools
