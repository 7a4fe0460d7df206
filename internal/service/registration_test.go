package service

import (
	"errors"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// still is a clock that stands.
type still struct{ at time.Time }

func (s still) Now() time.Time { return s.at }

func TestWorkerRegistrationHasARate(t *testing.T) {
	s := New(nil, still{time.Unix(1_800_000_000, 0)}, Config{})
	ann, ben := tenant.Principal{Tenant: "ann", Role: tenant.Worker}, tenant.Principal{Tenant: "ben", Role: tenant.Worker}
	for i := range 1000 {
		if err := s.TakeRegistration(ann); err != nil {
			t.Fatalf("the %d-th: %v", i+1, err)
		}
	}
	var over *OverQuota
	if err := s.TakeRegistration(ann); !errors.As(err, &over) || over.Wait <= 0 || over.Wait > time.Second {
		t.Errorf("one more: %v", err)
	}
	if err := s.TakeRegistration(ben); err != nil {
		t.Errorf("another tenant's: %v", err)
	}
}
