// Package dashboard is the web pages: what `make dashboard` has built out of web/, inside the binary.
//
// The pages are an ordinary client of the API and know nothing that it does not tell. This package says which addresses are
// screens, and what each shows as JSON, and serves the built files, compressed when they were built and under names that
// carry their hash. A binary that was built without them serves one page that says how to get them.
//
// It never reads the disk, asks no store and decides nothing: who may see what is the API's business.
package dashboard
