package client

import "time"

// AuditEntry is one change and who made it.
type AuditEntry struct {
	Seq       int64             `json:"seq" doc:"Its position: later entries have greater numbers, possibly with gaps."`
	At        time.Time         `json:"at"`
	Principal string            `json:"principal" doc:"The name of the credential."`
	Role      string            `json:"role"`
	KeyID     *string           `json:"key_id" doc:"The API key; null for a token."`
	Action    string            `json:"action" doc:"The action, such as job.create."`
	Object    string            `json:"object" doc:"The id or name of the changed object."`
	Count     int               `json:"count" doc:"How many objects changed; if several, object is the first."`
	Also      []AuditRequest    `json:"also,omitempty" doc:"Requests with the same credential that were stored together with this one and share its entry."`
	Before    map[string]string `json:"before,omitempty" doc:"The previous values of changed fields; digests of long or private ones."`
	After     map[string]string `json:"after,omitempty"`
	IP        string            `json:"ip"`
	RequestID string            `json:"request_id"`
}

// AuditRequest is a request that several changes of an entry share.
type AuditRequest struct {
	RequestID string `json:"request_id"`
	Object    string `json:"object"`
	Count     int    `json:"count"`
}

// AuditEntries is one page of changes, newest first.
type AuditEntries struct {
	Audit      []AuditEntry `json:"audit"`
	Pagination Pagination   `json:"pagination"`
}

// AuditVerification reports whether the audit log is unchanged since it was sealed.
type AuditVerification struct {
	OK         bool         `json:"ok"`
	Entries    int64        `json:"entries" doc:"How many entries were checked."`
	Seals      int64        `json:"seals"`
	FirstSeal  int64        `json:"first_seal" doc:"Greater than 1 if older seals were dropped with their entries; 0 if there is none, or if an earlier call started with it."`
	LastSeal   int64        `json:"last_seal"`
	LastSealAt *time.Time   `json:"last_seal_at"`
	Head       *string      `json:"head" doc:"The hash of the last seal. Keep it elsewhere to detect a log that was cut off at the end or rewritten."`
	Unsealed   int64        `json:"unsealed" doc:"The latest entries, which are sealed a few seconds after they were written."`
	Broken     *AuditBroken `json:"broken,omitempty"`
	NextCursor *string      `json:"next_cursor" doc:"There is more to check: send it as cursor."`
}

// AuditBroken is the first entry that does not match its seal.
type AuditBroken struct {
	Seal   int64  `json:"seal"`
	Seq    *int64 `json:"seq" doc:"The entry; null: the seal itself."`
	Reason string `json:"reason"`
}
