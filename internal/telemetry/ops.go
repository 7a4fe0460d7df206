package telemetry

import (
	"context"
	"errors"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// op is a group of calls of the store that are told apart.
type op uint8

const (
	opAccess op = iota
	opCancel
	opCharge
	opCreate
	opDraw
	opDue
	opFind
	opFinish
	opFire
	opHeld
	opLease
	opLogs
	opOperate
	opReady
	opReap
	opRegister
	opRelease
	opRenew
	opSettings
	opTrace
	opTrigger
	opUpdate
	opUpkeep
	opCount
)

// opNames are the values of the label op.
var opNames = [opCount]string{
	opAccess:   "access",
	opCancel:   "cancel",
	opCharge:   "charge",
	opCreate:   "create",
	opDraw:     "draw",
	opDue:      "due",
	opFind:     "find",
	opFinish:   "finish",
	opFire:     "fire",
	opHeld:     "held",
	opLease:    "lease",
	opLogs:     "logs",
	opOperate:  "operate",
	opReady:    "ready",
	opReap:     "reap",
	opRegister: "register",
	opRelease:  "release",
	opRenew:    "renew",
	opSettings: "settings",
	opTrace:    "trace",
	opTrigger:  "trigger",
	opUpdate:   "update",
	opUpkeep:   "upkeep",
}

// broken reports whether an error means that the store failed: most are answers.
func broken(err error) bool {
	for _, answer := range []error{engine.ErrNotFound, engine.ErrConflict, engine.ErrSession, engine.ErrFull, engine.ErrCursor, context.Canceled} {
		if errors.Is(err, answer) {
			return false
		}
	}
	var spent *engine.Spent
	return !errors.As(err, &spent)
}
