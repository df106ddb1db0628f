-- What the watch under the room's lease says of itself. state and since are of
-- the lease's holder and mean nothing once it is gone; problem is the last
-- trouble any watch of the room had.
alter table room add column state      text    not null default '';
alter table room add column since      integer not null default 0;
alter table room add column problem    text    not null default '';
alter table room add column problem_at integer not null default 0;

-- When the last event was stored here.
alter table member add column arrived integer not null default 0;

-- Which process an owner is, and since when.
alter table owner add column pid   integer not null default 0;
alter table owner add column since integer not null default 0;
