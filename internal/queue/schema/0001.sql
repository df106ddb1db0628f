-- Times are integers, UTC: milliseconds for what people do (touched, ended),
-- microseconds for what a service stamps (at, sort_key).
create table identity (
  id     integer primary key,
  server text not null,
  user   text not null,
  unique (server, user)
) strict;

-- One process at a time holds a room's lease: owner. epoch grows with every
-- lease and fences late writes of an earlier one. paused_* is what the room
-- must have space for before its watch goes on; null while it is not paused.
create table room (
  id            integer primary key,
  identity      integer not null references identity,
  name          text    not null,
  owner         integer,
  epoch         integer not null default 0,
  paused_events integer,
  paused_bytes  integer,
  unique (identity, name)
) strict;
-- Not "is not null": SQLite would prepare every look for one room again, to see
-- whether this index serves it.
create index room_paused on room (id) where paused_events > 0;

-- fetched is how far the watch has read. events, bytes and urgent count the
-- rows of event. head and first are the sort key and the cursor of the lowest
-- of them, so that claiming never looks at members with nothing to give.
create table member (
  id       integer primary key,
  identity integer not null references identity,
  room     integer not null references room,
  name     text    not null,
  fetched  integer not null,
  last_key integer not null default 0,
  touched  integer not null,
  ended    text    not null default '',
  ended_at integer not null default 0,
  events   integer not null default 0,
  bytes    integer not null default 0,
  urgent   integer not null default 0,
  head     integer,
  first    integer,
  unique (room, name)
) strict;
create index member_identity on member (identity, touched);
create index member_ready on member (identity, head, id) where events > 0;

-- What the agent was handed by a sync beyond fetched: (low, high].
create table handed (
  member integer not null references member,
  low    integer not null,
  high   integer not null,
  primary key (member, low)
) strict, without rowid;

create table body (
  id   integer primary key,
  type text    not null,
  at   integer not null,
  data blob    not null
) strict;

-- Undelivered events. claim is the claim a row is part of, null while none is.
create table event (
  member      integer not null references member,
  cursor      integer not null,
  sort_key    integer not null,
  size        integer not null,
  ambient     integer not null,
  redelivered integer not null default 0,
  claim       integer,
  body        integer not null,
  primary key (member, cursor)
) strict, without rowid;

-- Acknowledged events, kept for a while in case the host never read the reply.
create table kept (
  claim    integer not null,
  member   integer not null,
  cursor   integer not null,
  sort_key integer not null,
  size     integer not null,
  ambient  integer not null,
  body     integer not null,
  owner    integer not null,
  primary key (claim, member, cursor)
) strict, without rowid;
create index kept_member on kept (member, cursor);

-- A member is held while a claim or a sync of it is in flight. A claim's rows
-- lie in low..high and carry its number; a sync has no claim.
create table hold (
  id     integer primary key,
  member integer not null references member,
  owner  integer not null,
  claim  integer,
  low    integer not null default 0,
  high   integer not null default 0,
  events integer not null default 0,
  urgent integer not null default 0
) strict;

-- One row per process. beat grows while the process runs and is not alone.
create table owner (
  id   integer primary key,
  lock text    not null,
  beat integer not null default 0
) strict;

create table total (
  id       integer primary key check (id = 1),
  events   integer not null default 0,
  bytes    integer not null default 0,
  revision integer not null default 0
) strict;
insert into total (id) values (1);
