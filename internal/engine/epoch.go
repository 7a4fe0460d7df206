package engine

import "time"

// A fencing token is the epoch of its store times 2^40, plus a number. A restore or a move begins a new epoch, so
// that every earlier token, even one unknown to the store, is smaller than all that follow.
const epochBits = 40

// maxDayEpoch limits what the date adds: below it, tokens are numbers that every language's JSON reads exactly.
const maxDayEpoch = 8000

var epochDays = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// EpochOf returns the epoch of a token.
func EpochOf(token int64) int64 { return token >> epochBits }

// FirstToken returns the first token of an epoch.
func FirstToken(epoch int64) int64 { return epoch << epochBits }

// TokenAfterLoss returns the first token for a store that has lost its latest tokens, where last is the greatest that
// it remembers. It begins a new epoch, and within it grows with the time of day: a store restored from the same
// backup twice a day issues different tokens the second time.
func TokenAfterLoss(last int64, now time.Time) int64 {
	const perSecond = 1 << 23 // 86 400 of these fit into an epoch
	return FirstToken(NextEpoch(EpochOf(last), now)) + int64(now.Sub(now.Truncate(24*time.Hour))/time.Second)*perSecond
}

// NextEpoch returns the following epoch. It is at least the day's number, since a lost store may have come from the
// same backup.
func NextEpoch(epoch int64, now time.Time) int64 {
	return max(epoch+1, min(int64(now.Sub(epochDays)/(24*time.Hour)), maxDayEpoch))
}
