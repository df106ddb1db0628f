package account

import "time"

// Plan is what creating rooms on a plan allows. Joining is free on all of
// them. See protocol.md 4.2.
type Plan struct {
	Swarm          bool
	MonthlyCreates int
	OrgOnly, Audit bool
	Public         bool
	BlobBytes      int64         // of one room
	Keep           time.Duration // after a room closed; 0 is until deleted
	HostedRooms    int           // open at once
}

const (
	day = 24 * time.Hour
	mib = 1 << 20
)

var plans = map[string]Plan{
	"free": {MonthlyCreates: 20, BlobBytes: 50 * mib, Keep: 7 * day},
	"pro":  {Swarm: true, MonthlyCreates: 500, Public: true, BlobBytes: 500 * mib, Keep: 365 * day},
	"max":  {Swarm: true, MonthlyCreates: 2000, Public: true, BlobBytes: 5120 * mib, HostedRooms: 3},
	"team": {Swarm: true, MonthlyCreates: 5000, OrgOnly: true, Audit: true, Public: true, BlobBytes: 5120 * mib, HostedRooms: 5},
}

// PlanOf returns what the named plan allows; an unknown one allows what free
// does.
func PlanOf(name string) Plan {
	if p, ok := plans[name]; ok {
		return p
	}
	return plans["free"]
}
