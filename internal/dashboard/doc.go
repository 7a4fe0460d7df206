// Package dashboard serves the web pages that `make dashboard` builds from web/, from inside the binary.
//
// The pages are an ordinary client of the API and know only what it tells them. This package defines which addresses
// are screens, and what each shows as JSON, and serves the built files, compressed at build time and under names that
// contain their hash. A binary built without them serves one page that says how to get them.
//
// It never reads the disk or a store, and decides nothing: the API controls who may see what.
package dashboard
