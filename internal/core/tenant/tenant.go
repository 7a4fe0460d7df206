// Package tenant defines who may do what: tenants, roles and the principal behind a request.
//
// A tenant owns jobs; a Principal is the outcome of authenticating a credential, and the only source of the tenant a
// request acts in. The package only decides: it never reads a credential, a header or a store.
package tenant

import "time"

// ID names a tenant.
type ID string

// Default is the tenant that exists from the start and has no limits.
const Default ID = "default"

// Tier is the plan that a tenant has paid for.
type Tier string

// The tiers.
const (
	Free       Tier = "free"
	Pro        Tier = "pro"
	Enterprise Tier = "enterprise"
)

// Tiers lists all tiers, the smallest first.
func Tiers() []Tier { return []Tier{Free, Pro, Enterprise} }

func (t Tier) String() string { return string(t) }

// Weight returns a tenant's share of the workers, relative to other tenants with waiting work.
func (t Tier) Weight() int {
	switch t {
	case Enterprise:
		return 10
	case Pro:
		return 3
	case Free:
	}
	return 1
}

// Tenant owns jobs.
type Tenant struct {
	ID        ID
	Name      string
	Tier      Tier
	Overrides Overrides // of its tier's quota
	Reach     string    // private address ranges that its callbacks may reach, separated by commas
	HTTPSOnly bool      // its callbacks must use https
	CreatedAt time.Time
	CutAt     time.Time // when its history was last shortened; zero: never
	OwnKept   bool      // some of its jobs have a retention of their own; read only
}

// Role determines what a credential may do.
type Role string

// The roles, from the least to the most powerful; Worker stands apart.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
	System   Role = "system"
	Worker   Role = "worker"
)

// Permission is what a request requires of a role.
type Permission string

// The permissions. Open needs no credential at all.
const (
	Open   Permission = "open"
	Read   Permission = "read"
	Fetch  Permission = "fetch" // artifacts
	Write  Permission = "write"
	Manage Permission = "manage"
	Work   Permission = "work"
	Scale  Permission = "scale" // read how much work there is, over all tenants
	Run    Permission = "run-the-installation"

	// Callback is for the holder of the token of the execution that the request is about; the handler checks it.
	Callback Permission = "callback-token"
	// Enter is for whoever has a credential to sign in with, in the body; the handler checks it.
	Enter Permission = "sign-in"
	// Known is for every credential.
	Known Permission = "any-credential"
)

var grants = map[Role]map[Permission]bool{
	Viewer:   {Known: true, Read: true, Fetch: true},
	Operator: {Known: true, Read: true, Fetch: true, Write: true},
	Admin:    {Known: true, Read: true, Fetch: true, Write: true, Manage: true},
	Worker:   {Known: true, Work: true, Scale: true, Fetch: true},
	System:   {Known: true, Read: true, Fetch: true, Write: true, Manage: true, Work: true, Scale: true, Run: true},
}

// Allows reports whether the role has the permission.
func (r Role) Allows(p Permission) bool { return !p.Keyed() || grants[r][p] }

// Keyed reports whether a request with the permission needs a credential in its header.
func (p Permission) Keyed() bool { return p != Open && p != Callback && p != Enter }

// Gives reports whether the role may give another role to a key: none with a permission it lacks itself, except
// Worker, which admins give.
func (r Role) Gives(other Role) bool {
	if _, known := grants[other]; !known || !r.Allows(Manage) {
		return false
	}
	if other == Worker {
		return true
	}
	for p := range grants[other] {
		if !r.Allows(p) {
			return false
		}
	}
	return true
}

// Roles lists all roles.
func Roles() []Role { return []Role{Viewer, Operator, Admin, Worker, System} }

// Principal identifies who a request acts for.
type Principal struct {
	Tenant ID
	Role   Role
	Name   string // the credential's name, for logs
	Key    string // the id of its API key; "": none
	From   string // the address that the request came from; "": from within
	Asked  string // the id of the request; "": none

	Internal bool // the product itself acts for the tenant, without a request, and not subject to quotas
}

// Who identifies whoever acts: by the API key, else by the subject of the token. Two keys may have one name.
func (p Principal) Who() string {
	if p.Key != "" {
		return "key:" + p.Key
	}
	return "name:" + p.Name
}

// Local is the principal of an installation without sign-in.
func Local() Principal { return Principal{Tenant: Default, Role: System, Name: "local"} }
