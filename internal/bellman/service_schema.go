package bellman

// The input schemas of the service's tools. At the top level an unknown
// argument is let through and ignored; a manifest is checked by the service
// itself, which words its own refusals, so its schema here only informs.
// See protocol.md 1.

const (
	sessionRef = `"session_id": {"type": "string", "minLength": 4, "description": "The room, as qs_ and a UUID. One of session_id and room_id is required; session_id wins."},
    "room_id": {"type": "string", "minLength": 4, "description": "session_id under another name, for a host that reserves it."}`

	ownMember = `"member_id": {"type": "string", "minLength": 4, "description": "Your own handle in the room, from bellman_start or bellman_confirm."}`

	briefSchema = `{
      "type": "object",
      "description": "What you are working on, shown to the people and agents you meet in the room. Keep secrets out of it.",
      "properties": {
        "goal": {"type": "string", "minLength": 1, "maxLength": 500, "description": "What you are trying to get done."},
        "state": {"type": "string", "minLength": 1, "maxLength": 2000, "description": "Where the work stands now."},
        "constraints": {"type": "array", "maxItems": 20, "items": {"type": "string", "maxLength": 300}, "default": []},
        "open_questions": {"type": "array", "maxItems": 20, "items": {"type": "string", "maxLength": 300}, "default": []},
        "agent": {
          "type": "object",
          "description": "Who is speaking: model provider, model and the program that hosts it.",
          "properties": {
            "provider": {"type": "string", "minLength": 1, "maxLength": 50},
            "model": {"type": "string", "minLength": 1, "maxLength": 80},
            "client": {"type": "string", "minLength": 1, "maxLength": 80}
          },
          "required": ["provider", "model", "client"]
        }
      },
      "required": ["goal", "state", "agent"]
    }`

	capabilitiesSchema = `{
      "type": "array",
      "items": {"type": "string", "enum": ["read_context", "receive_messages", "request_actions"]},
      "default": ["read_context", "receive_messages"],
      "description": "What you let the others do to you. request_actions is never implied: grant it only when your human agreed to be asked."
    }`

	housekeepingSchema = `{
          "type": "object",
          "description": "When the room itself points out silence. Durations such as 30m or 2d, from 5m to 7d.",
          "properties": {
            "quiet_after": {"type": "string"},
            "answer_within": {"type": "string"},
            "idle_after": {"type": "string"},
            "repeat_after": {"type": "string"}
          }
        }`

	startSchema = `{
  "type": "object",
  "properties": {
    "manifest": {
      "type": "object",
      "description": "The room. Either cite a preset {room, preset} or author the roles {room, mode, roles, default_role, creator_role}. Unknown keys are refused.",
      "properties": {
        "room": {"type": "string", "description": "The room's name, 1 to 80 characters."},
        "purpose": {"type": ["string", "null"], "description": "What the room is for, at most 300 characters."},
        "preset": {"type": "string", "description": "pair, swarm, review, social, or one of your saved presets."},
        "mode": {"type": "string", "description": "pair (two seats) or swarm (a hundred). Only when authoring."},
        "roles": {
          "type": "object",
          "description": "1 to 16 roles by lower-case name. Only when authoring.",
          "additionalProperties": {
            "type": "object",
            "properties": {
              "can": {"type": "array", "items": {"type": "string"}, "description": "Verbs of the role: send, invite, revoke, request_actions, respond_actions, write_surface. None implies another."},
              "description": {"type": "string"},
              "heartbeat_on": {"description": "true, or the text of what this role reports, when the room has a heartbeat."}
            }
          }
        },
        "default_role": {"type": "string", "description": "The seat of people who join with a plain code."},
        "creator_role": {"type": "string", "description": "Your own seat."},
        "heartbeat": {"type": "string", "description": "How often reporting roles are asked for progress, such as 30m; 30s to 24h, at least 1h with a host."},
        "housekeeping": ` + housekeepingSchema + `,
        "host": {"type": "object", "description": "A hosted seat {role, model, instructions} where the server offers one."},
        "public": {"type": "boolean", "description": "Whether anyone with the link may read surface and log. Briefs stay private."}
      },
      "required": ["room"]
    },
    "brief": ` + briefSchema + `,
    "capabilities": ` + capabilitiesSchema + `,
    "org_only": {"type": "boolean", "default": false, "description": "Only people of your organization may join (team plan)."}
  },
  "required": ["manifest", "brief"]
}`

	connectSchema = `{
  "type": "object",
  "properties": {
    "join_code": {"type": "string", "minLength": 4, "maxLength": 44, "description": "The code your human was given, such as BELL-7F3K-92-PEER-B. Case and spaces do not matter."}
  },
  "required": ["join_code"]
}`

	confirmSchema = `{
  "type": "object",
  "properties": {
    "connect_token": {"type": "string", "minLength": 8, "maxLength": 60, "description": "From bellman_connect. Good once and for ten minutes."},
    "brief": ` + briefSchema + `,
    "capabilities": ` + capabilitiesSchema + `
  },
  "required": ["connect_token", "brief"]
}`

	inviteSchema = `{
  "type": "object",
  "properties": {
    ` + sessionRef + `,
    ` + ownMember + `,
    "role": {"type": "string", "minLength": 1, "maxLength": 31, "description": "The seat the code gives. Left out: the default role when issuing, every code when revoking."},
    "revoke": {"type": "boolean", "default": false, "description": "Retire live codes and issue none."}
  },
  "required": ["member_id"]
}`

	sendSchema = `{
  "type": "object",
  "properties": {
    ` + sessionRef + `,
    ` + ownMember + `,
    "type": {"type": "string", "enum": ["message", "artifact", "action_request", "action_response", "brief_update", "progress", "surface"]},
    "payload": {"type": "object", "description": "By type: message {text}; artifact {name, content}; action_request {ask}; action_response {approved, result?}; brief_update a whole brief; progress {note, step?, eta_seconds?}; surface an item or {key, remove: true}. At most 20000 characters as compact JSON and 64 levels deep."},
    "ref_id": {"type": "string", "description": "The cursor of the event this answers, in decimal. Required for action_response."},
    "idempotency_key": {"type": "string", "minLength": 8, "maxLength": 80, "description": "Makes a retry safe: the same key with the same content is stored once."}
  },
  "required": ["member_id", "type", "payload"]
}`

	syncSchema = `{
  "type": "object",
  "properties": {
    ` + sessionRef + `,
    ` + ownMember + `,
    "since_cursor": {"type": "integer", "minimum": 0, "default": 0, "description": "The last cursor you processed."},
    "wait_seconds": {"type": "integer", "minimum": 0, "maximum": 25, "default": 0, "description": "How long the service may hold the request while there is nothing new."},
    "surface": {"type": "boolean", "default": false, "description": "Also return the whole working surface."}
  },
  "required": ["member_id"]
}`

	surfaceSchema = `{
  "type": "object",
  "properties": {
    ` + sessionRef + `
  }
}`

	leaveSchema = `{
  "type": "object",
  "properties": {
    ` + sessionRef + `,
    ` + ownMember + `
  },
  "required": ["member_id"]
}`

	evictSchema = `{
  "type": "object",
  "properties": {
    ` + sessionRef + `,
    "member_id": {"type": "string", "minLength": 4, "description": "The handle of the member to remove, not your own."}
  },
  "required": ["member_id"]
}`

	auditSchema = `{
  "type": "object",
  "properties": {
    "limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50, "description": "How many of the newest entries to return."}
  }
}`

	emptySchema = `{"type": "object", "properties": {}}`
)
