package engine

import "time"

// A fencing token is the epoch of its store times 2^40, and a number. A restore or a move begins a new epoch, so that a
// token that was drawn before it, even one that the store knows nothing of, is smaller than all that come.
const epochBits = 40

// maxDayEpoch bounds what the date adds: below it, tokens are numbers that every language's JSON reads exactly.
const maxDayEpoch = 8000

var epochDays = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// EpochOf is the epoch that a token was drawn in.
func EpochOf(token int64) int64 { return token >> epochBits }

// FirstToken is the first token of an epoch.
func FirstToken(epoch int64) int64 { return epoch << epochBits }

// TokenAfterLoss is the first token to be drawn by a store that has lost what came last, where last is the greatest that it
// remembers. It begins a new epoch, and within it the later in the day, the greater: a store that is restored from the same
// backup twice a day draws other tokens the second time.
func TokenAfterLoss(last int64, now time.Time) int64 {
	const perSecond = 1 << 23 // 86 400 of these fit into an epoch
	return FirstToken(NextEpoch(EpochOf(last), now)) + int64(now.Sub(now.Truncate(24*time.Hour))/time.Second)*perSecond
}

// NextEpoch is the epoch that follows. It is at least the day's number, for a store that is lost may have come
// from the same backup.
func NextEpoch(epoch int64, now time.Time) int64 {
	return max(epoch+1, min(int64(now.Sub(epochDays)/(24*time.Hour)), maxDayEpoch))
}
