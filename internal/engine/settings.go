package engine

// Settings is the part of a store that people and operators set, and what is counted for them to look at. It is off the hot path:
// package sqlstore implements it for every SQL database.
type Settings interface {
	Tenants
	Keys
	SignIns
	Secrets
	SigningSecrets
	Calendars
	Notices
	Badges
	Operations
	Audit
	Counts
	Tallies
	Traces
}
