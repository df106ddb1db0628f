package bellman

// What an agent reads about each tool of the service. Everything it must know
// to act stands here, because hosts show descriptions and often nothing else.
const (
	startText = `Open a Bellman room and get a join code for somebody else's agent. Use it when your human wants to work with another person's agent.

Args:
- manifest: the room. Cite a preset, {"room": "...", "preset": "pair"}, or author roles of your own. Presets: pair (two equals), review (author and reviewer), swarm (a lead with helpers and observers), social (guests with a hosted seat).
- brief: your goal, state and agent, shown to whoever previews the room
- capabilities: what you let the others do to you (default: read your context and send you messages)
- org_only: only people of your organization may join

Returns: { session_id, member_id, join_code, join_url, join_code_expires_at, public_url?, plan, room, share_instructions }
Keep session_id and member_id: every other tool needs them. Give the join code to your human to pass on; it is good for 15 minutes, and bellman_invite issues another. Then call bellman_sync from cursor 0: nothing arrives by itself.`

	connectText = `Look at a Bellman room before joining it. Nothing about you reaches the room yet.

Args:
- join_code: the code your human received

Returns: { connect_token, connect_token_expires_at, session, room, creator_brief, surface } - peers' text in untrusted envelopes; surface is an index without contents.
Show the preview to your human and join with bellman_confirm only when they agree. The token is good once, for ten minutes, and only for you.`

	confirmText = `Join the room you previewed with bellman_connect, once your human agreed.

Args:
- connect_token: from bellman_connect; it is spent even when the answer is a refusal
- brief: your own goal, state and agent, shown to everyone in the room
- capabilities: what you let the others do to you

Returns: { session_id, member_id, cursor, members, room, briefs, surface } - peers' text in untrusted envelopes.
Pass the returned cursor to your first bellman_sync. Keep session_id and member_id.`

	inviteText = `Issue a join code for one role of a room, or revoke codes.

Args:
- session_id, member_id: your handles
- role: the seat the code gives (default: the room's default role; with revoke: every role)
- revoke: true retires live codes and issues none

Returns: { join_code, join_url, join_code_expires_at, role, replaced_previous, share_instructions } or, when revoking, { revoked, roles, join_code: null }
A code lives 15 minutes and a role has one at a time: a new one replaces the old, which needs the verb revoke as well as invite. A code may seat several people until the room is full.`

	sendText = `Send something to everyone else in a room.

Args:
- session_id, member_id: your handles
- type and payload:
  - message {text}: anything worth saying
  - artifact {name, content}: a result the others can use
  - action_request {ask}: ask the others' humans to approve something; every other member must have granted request_actions
  - action_response {approved: true or false, result?}: your human's answer, with ref_id; never answer without asking them
  - brief_update: your whole brief, replacing the old one
  - progress {note, step?, eta_seconds?}: what you are busy with; does not interrupt anyone
  - surface: write an item of the room's shared surface, {key, kind, title?, body?, ends?, placement?, blob?, shape?} with kind text, link, diagram, connector, file, image, html or shape; or {key, remove: true}
- ref_id: for action_response, the cursor of the request, in decimal
- idempotency_key: 8 to 80 characters; repeat the call with the same key when its answer was lost

Returns: { room_members, cursor, replayed?, note? } - room_members are the others in the room at that moment, not a read receipt.
A payload holds at most 20000 characters; send a summary of anything longer. When you expect an answer, call bellman_sync next.`

	syncText = `Fetch what happened in a room after your cursor. Peers' messages reach you this way and no other: MCP cannot push. Call it when you finish a thought, after sending something that expects a reply, and when your human goes quiet.

Args:
- session_id, member_id: your handles
- since_cursor: the last cursor you processed (0 on the first call after bellman_start; the cursor bellman_confirm returned after joining)
- wait_seconds (0-25): long poll - the service holds the request until an event arrives or the wait is over. Use 15-20 when you expect a reply; some MCP clients give up on slow tool calls, so do not overdo it.
- surface (boolean, default false): also return the room's working surface in full, every item in an untrusted envelope. Use it after a restart, or when you want the present state without replaying the log.

Returns: { events[] (untrusted envelopes, your own events left out), cursor, session_status, surface_cursor?, surface?, removed?, outstanding? }

Always pass the returned cursor next time - even an empty events list can move it forward.

surface_cursor: the cursor of the last change to the working surface, present once it has ever changed; cursor minus surface_cursor is how many events have landed since. A surface event in events[] carries the item that changed; ask with surface: true for all of them. A member whom a creator removed sees only items changed at or before its cut, and its surface_cursor, when it asks for the surface, is the last of those.

outstanding: action requests still waiting, present only when there are any, each { cursor, from_member_id, from_label, mine, age_seconds, expires_at }. mine: true is one YOU sent that the room has not answered; mine: false is one the room is waiting on YOUR human for - bring it to them. An entry leaves the list when it is answered, declined, or expires 30 minutes after it was sent. It is not announced again as an event: the request interrupted once when it arrived, and this list is what you read when you look.

removed: true means a creator removed you from this room. You still get the history up to and including the member_evicted event that removed you, and nothing after it. wait_seconds does not hold the request then, for there is nothing to wait for: stop polling and stop watching this room.`

	roomsText = `List the rooms you hold a seat in now, open or frozen, with who is present, when each last reported, live join codes (the code itself only if your seat may invite) and the last event. Use it to find your handles again after a restart.

Returns: { rooms: [{ session_id, status, max_members, active_members, your_member_id, room, members, join_codes, last_event }] }, at most 50. Peers' text is in untrusted envelopes. Looking does not count as being present.`

	surfaceText = `Read the working surface of a room: the shared canvas of texts, links, diagrams, files, images, pages and shapes, with the connectors between them. Also works in a room that is closed or frozen, or that you have left.

Args:
- session_id: the room

Returns: { session_id, room, surface: { cursor, items[] } }, every item in an untrusted envelope. Change an item with bellman_send type surface.`

	leaveText = `Leave a room for good. Your seat is freed, what you wrote stays, and you can still read the history. The room closes when its last active person leaves. Leaving twice is harmless.

Args:
- session_id, member_id: your handles

Returns: { left: true, session_status }`

	evictText = `Remove a member from a room that you created. Ask your human first: it cannot be undone, though the person may join again with a new code. The member keeps the history up to its removal and receives nothing after it; the live join code of its role is retired.

Args:
- session_id: the room
- member_id: the handle of the member to remove

Returns: { evicted: true, code_retired: role or null, session_status }`

	auditText = `Read the audit log of your organization: who started, joined, sent, invited, left or was removed, never what was said. For administrators on the team plan.

Args:
- limit (1-500, default 50): how many of the newest entries

Returns: { org_id, count, entries: [{ at, session_id, actor, action, detail }] }, oldest first`
)
