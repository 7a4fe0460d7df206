// Package tenant holds who may ask for what: tenants, roles and the principal
// behind a request.
//
// A tenant owns jobs; a Principal is the outcome of authenticating a
// credential, and the only source of the tenant a request acts in. The package
// decides, it never reads a credential, a header or a store.
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

// Tiers lists them all, the least first.
func Tiers() []Tier { return []Tier{Free, Pro, Enterprise} }

func (t Tier) String() string { return string(t) }

// Weight is a tenant's share of the workers, beside the others that have work waiting.
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
	Reach     string    // address ranges that its callbacks may reach though they are not public, separated by commas
	HTTPSOnly bool      // its callbacks go over https only
	CreatedAt time.Time
	CutAt     time.Time // when its history became shorter than it was; zero: never
}

// Role says what a credential may do.
type Role string

// The roles, from the least to the most powerful; Worker stands beside them.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
	System   Role = "system"
	Worker   Role = "worker"
)

// Permission is what a request needs to be allowed.
type Permission string

// The permissions. Open needs no credential at all.
const (
	Open   Permission = "open"
	Read   Permission = "read"
	Fetch  Permission = "fetch" // artifacts
	Write  Permission = "write"
	Manage Permission = "manage"
	Work   Permission = "work"
	Scale  Permission = "scale" // to know how much there is to do, over all tenants
	Run    Permission = "run-the-installation"

	// Callback is of whoever has the token of the execution that the request is about; whoever answers it checks that.
	Callback Permission = "callback-token"
	// Enter is of whoever has a credential to sign in with, in the body; whoever answers it checks that.
	Enter Permission = "sign-in"
	// Known is of every credential.
	Known Permission = "any-credential"
)

var grants = map[Role]map[Permission]bool{
	Viewer:   {Known: true, Read: true, Fetch: true},
	Operator: {Known: true, Read: true, Fetch: true, Write: true},
	Admin:    {Known: true, Read: true, Fetch: true, Write: true, Manage: true},
	Worker:   {Known: true, Work: true, Scale: true, Fetch: true},
	System:   {Known: true, Read: true, Fetch: true, Write: true, Manage: true, Work: true, Scale: true, Run: true},
}

// Allows reports whether the role carries the permission.
func (r Role) Allows(p Permission) bool { return !p.Keyed() || grants[r][p] }

// Keyed reports whether a request with the permission needs a credential in its header.
func (p Permission) Keyed() bool { return p != Open && p != Callback && p != Enter }

// Gives reports whether the role may give the other one to a key: none that carries what it does not carry itself, but
// for Worker, which admins give.
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

// Roles lists them all.
func Roles() []Role { return []Role{Viewer, Operator, Admin, Worker, System} }

// Principal identifies who a request acts for.
type Principal struct {
	Tenant ID
	Role   Role
	Name   string // the credential's name, for logs
	Key    string // the id of its API key; "": it is none
	From   string // the address that the request came from; "": from within
	Asked  string // the id of the request; "": there is none

	Internal bool // the product itself acts for the tenant: what it does is no request, and no quota holds it back
}

// Local is the principal of an installation without sign-in.
func Local() Principal { return Principal{Tenant: Default, Role: System, Name: "local"} }
