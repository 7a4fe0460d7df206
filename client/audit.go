package client

import "time"

// AuditEntry is a change that someone asked for.
type AuditEntry struct {
	Seq       int64             `json:"seq" doc:"Its place: later ones have greater numbers, not without gaps."`
	At        time.Time         `json:"at"`
	Principal string            `json:"principal" doc:"The name of the credential."`
	Role      string            `json:"role"`
	KeyID     *string           `json:"key_id" doc:"The API key; null for a token."`
	Action    string            `json:"action" doc:"What was done to what, such as job.create."`
	Object    string            `json:"object" doc:"The id or the name of what it was done to."`
	Count     int               `json:"count" doc:"How many; of several, object is the first."`
	Before    map[string]string `json:"before,omitempty" doc:"What was another before; digests where it is long or private."`
	After     map[string]string `json:"after,omitempty"`
	IP        string            `json:"ip"`
	RequestID string            `json:"request_id"`
}

// AuditEntries is one page of changes, the latest first.
type AuditEntries struct {
	Audit      []AuditEntry `json:"audit"`
	Pagination Pagination   `json:"pagination"`
}

// AuditVerification says whether the log of changes is as it was sealed.
type AuditVerification struct {
	OK         bool         `json:"ok"`
	Entries    int64        `json:"entries" doc:"That were checked."`
	Seals      int64        `json:"seals"`
	FirstSeal  int64        `json:"first_seal" doc:"Greater than 1 where older ones were dropped with their time; 0 where there is none, or another call has begun with it."`
	LastSeal   int64        `json:"last_seal"`
	LastSealAt *time.Time   `json:"last_seal_at"`
	Head       *string      `json:"head" doc:"What the last seal sums up to. Kept elsewhere, it shows whether the end was cut off, or all was made anew."`
	Unsealed   int64        `json:"unsealed" doc:"The latest entries, which are sealed a few seconds after they were written."`
	Broken     *AuditBroken `json:"broken,omitempty"`
	NextCursor *string      `json:"next_cursor" doc:"There is more to check: send it as cursor."`
}

// AuditBroken is the first place that is not as it was sealed.
type AuditBroken struct {
	Seal   int64  `json:"seal"`
	Seq    *int64 `json:"seq" doc:"The entry; null: the seal itself."`
	Reason string `json:"reason"`
}
