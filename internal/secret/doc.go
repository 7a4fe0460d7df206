// Package secret manages values that jobs need and nobody may read: secrets that jobs name as ${secret:name}, and
// credentials that were written into their headers.
//
//	create   service: Find, Hide ──▶ store      references are checked, credentials sealed and replaced by one
//	claim    dispatch ──▶ delivery: Vault.Step   what the worker is given has the values, and only that
//	report   worker ──▶ api: Vault.Guards       what comes back loses them again, in any common encoding
//	log      slog ──▶ Vault.Handler             what the process says of itself, too
//
// A reference with a / is to a Backend, which keeps values outside of the store. Values are sealed (package seal)
// before they reach a store, and opened only here. Open ones are held in memory for seconds, in limited numbers. The
// package never writes a value anywhere, and none of its errors contains one.
package secret
