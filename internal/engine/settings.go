package engine

// Settings is the part of a store that people and operators configure, and the counts shown to them. It is off the
// hot path: package sqlstore implements it for every SQL database.
type Settings interface {
	Tenants
	Keys
	SignIns
	Secrets
	SigningSecrets
	Calendars
	Notices
	Badges
	Holds
	Blobs
	Workflows
	Operations
	Audit
	Counts
	Tallies
	Traces
	Catalogue
}
