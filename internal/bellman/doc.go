// Package bellman is the vocabulary of the Bellman service: wire types, the
// untrusted envelope, tool names and schemas, and the text form of peers'
// content. It does no input or output and imports no sibling, so the bridge,
// the hub and the build all mean the same thing by the same word.
package bellman
